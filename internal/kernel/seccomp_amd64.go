// SPDX-License-Identifier: Apache-2.0

package kernel

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var deniedHere = []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT}
