// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package vm

// hostTSC is 0: only on x86 a TCG guest of x86 sees the host's counter.
func hostTSC() int { return 0 }
