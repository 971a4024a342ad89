// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/binary"

	"patchcheck/vm/initramfs"
)

// tinyInit is a complete x86-64 ELF program of a few hundred bytes that
// prints message and restarts the machine. As PID 1 it shows, with nothing
// but a kernel, that a guest gets as far as user space and back.
func tinyInit(message string) []byte {
	const (
		base       = 0x400000
		headers    = 64 + 56 // ELF header, one program header
		sysWrite   = 1
		sysPause   = 34
		sysReboot  = 169
		rebootMag1 = 0xfee1dead
		rebootMag2 = 0x28121969
		rebootGo   = 0x01234567 // LINUX_REBOOT_CMD_RESTART
	)
	le := binary.LittleEndian
	var code []byte
	load := func(op byte, v uint32) { // mov r32, imm32
		code = le.AppendUint32(append(code, op), v)
	}
	const (
		eax = 0xb8
		edx = 0xba
		esi = 0xbe
		edi = 0xbf
	)
	syscall := func() { code = append(code, 0x0f, 0x05) }
	const codeLen = 22 + 22 + 9
	load(eax, sysWrite)
	load(edi, 1)
	load(esi, base+headers+codeLen)
	load(edx, uint32(len(message)))
	syscall()
	load(eax, sysReboot)
	load(edi, rebootMag1)
	load(esi, rebootMag2)
	load(edx, rebootGo)
	syscall()
	load(eax, sysPause) // should the kernel refuse
	syscall()
	code = append(code, 0xeb, 0xf7) // back to the pause
	if len(code) != codeLen {
		panic("tinyInit: code length")
	}
	size := uint64(headers + codeLen + len(message))

	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	b = le.AppendUint16(b, 2)            // executable
	b = le.AppendUint16(b, 62)           // x86-64
	b = le.AppendUint32(b, 1)            // version
	b = le.AppendUint64(b, base+headers) // entry
	b = le.AppendUint64(b, 64)           // program headers
	b = le.AppendUint64(b, 0)            // no sections
	b = le.AppendUint32(b, 0)            // flags
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, 1) // load
	b = le.AppendUint32(b, 5) // read, execute
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, base)
	b = le.AppendUint64(b, base)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, 0x1000)
	b = append(b, code...)
	return append(b, message...)
}

// tinyImage is an initramfs with tinyInit as /init.
func tinyImage(message string) ([]byte, error) {
	t := initramfs.Tree{}
	t.File("init", 0o755, tinyInit(message))
	return t.Bytes()
}
