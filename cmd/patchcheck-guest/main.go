// SPDX-License-Identifier: Apache-2.0

// Patchcheck-guest is PID 1 of patchcheck's guests. It is built static and
// packed into the guest image.
package main

import "patchcheck/internal/guestd"

func main() {
	guestd.Main(nil)
}
