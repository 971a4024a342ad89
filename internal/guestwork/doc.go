// SPDX-License-Identifier: Apache-2.0

// Package guestwork owns what the guest does for the host: it brings up the
// NFS server and RDMA links, mounts, moves and compares data, counts events in
// the kernel and samples memory and logs. Each verb of internal/guestproto is
// one function here; internal/guestd owns the channel they arrive by.
//
// The code runs inside PID 1 of a guest that exists for one test run, as root.
// Nothing here keeps a deadline: a guest that stops cannot, so the host does.
// Verbs that block in the kernel (mount, unmount, I/O on a hard mount) cannot
// be interrupted either.
//
// Errors are *guestproto.Error values. Their class says whom the failure
// speaks about: a missing program or kernel feature is "setup", a full file
// system "resource", an unexpected errno from the kernel under test "kernel"
// and wrong file content "data".
package guestwork
