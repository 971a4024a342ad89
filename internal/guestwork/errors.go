// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// usagef is a request that no guest can serve.
func usagef(format string, a ...any) *guestproto.Error {
	return &guestproto.Error{Class: guestproto.ClassUsage, Message: fmt.Sprintf(format, a...)}
}

// setupf is something that the guest lacks. The hint says what to do next.
func setupf(hint, format string, a ...any) *guestproto.Error {
	return &guestproto.Error{Class: guestproto.ClassSetup, Message: fmt.Sprintf(format, a...), Hint: hint}
}

// kernelf is a wrong answer of the kernel under test.
func kernelf(format string, a ...any) *guestproto.Error {
	return &guestproto.Error{Class: guestproto.ClassKernel, Message: fmt.Sprintf(format, a...)}
}

// errnoOf gives the errno inside err, or 0.
func errnoOf(err error) syscall.Errno {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return 0
}

// errnoName gives the symbolic name of an errno: "EIO".
func errnoName(no syscall.Errno) string {
	if no == 0 {
		return ""
	}
	if n := unix.ErrnoName(no); n != "" {
		return n
	}
	// NFS lets some of the kernel's internal numbers out (include/linux/errno.h).
	switch no {
	case 512:
		return "ERESTARTSYS"
	case 524:
		return "ENOTSUPP"
	case 527:
		return "EIOCBQUEUED"
	}
	return fmt.Sprintf("errno %d", uintptr(no))
}

// plain strips the operation and path that os errors repeat, since our
// messages name them already.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// withErrno adds the errno of err to e and to its message.
func withErrno(e *guestproto.Error, err error) *guestproto.Error {
	no := errnoOf(err)
	e.Errno = errnoName(no)
	if e.Errno != "" {
		e.Message += fmt.Sprintf(": %v (%s)", plain(err), e.Errno)
	} else if err != nil {
		e.Message += ": " + plain(err).Error()
	}
	return e
}

// ioError explains a failed file operation. nfs tells whether the file is on
// an NFS mount, that is, whether the kernel under test gave the answer.
func ioError(err error, nfs bool, format string, a ...any) *guestproto.Error {
	e := &guestproto.Error{Class: guestproto.ClassKernel, Message: fmt.Sprintf(format, a...)}
	switch errnoOf(err) {
	case unix.ENOSPC:
		e.Class = guestproto.ClassResource
		e.Hint = "the exported file system is full: make the server's size in the plan larger, or the workload smaller"
	case unix.EDQUOT:
		e.Class = guestproto.ClassResource
		e.Hint = "a quota of the exported file system is used up"
	case unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		e.Class = guestproto.ClassResource
		e.Hint = "the guest ran out of memory or files: give it more memory in the plan"
	case unix.EINVAL:
		// NFS takes any size and offset with O_DIRECT; other file systems
		// want multiples of the logical block size.
		if !nfs {
			e.Class = guestproto.ClassSetup
			e.Hint = "this file system does not take O_DIRECT with such a block size or offset (alignment), or not at all"
		}
	case unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.EEXIST:
		if !nfs {
			e.Class = guestproto.ClassSetup
		}
	}
	return withErrno(e, err)
}
