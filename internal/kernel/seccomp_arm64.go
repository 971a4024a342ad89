// SPDX-License-Identifier: Apache-2.0

package kernel

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var deniedHere []uintptr
