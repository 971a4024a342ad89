// SPDX-License-Identifier: Apache-2.0

// Patchcheck-guest is PID 1 of patchcheck's guests. It is built static and
// packed into the guest image.
package main

import (
	"patchcheck/internal/guestd"
	"patchcheck/internal/guestwork"
)

func main() {
	guestd.Main(func(r *guestd.Registry) { guestwork.Register(r) })
}
