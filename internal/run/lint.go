// SPDX-License-Identifier: Apache-2.0

package run

import "context"

// lint runs the mail-time checks.
func (r *runner) lint(ctx context.Context) error { return nil }
