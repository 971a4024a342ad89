// SPDX-License-Identifier: Apache-2.0

// Package vm owns guests: QEMU's command line (a pure function), the life of
// its process, the serial console, the control connection (vm/qmpctl), the
// SSH session (vm/guestssh), and the choice of an accelerator by a boot that
// answers.
//
// A guest has no network device and no disk. Two virtio-serial ports lead to
// its PID 1, one for SSH and one for events. The constructor boots or fails
// cleanly; errors say by their type whose fault it was.
//
// It does not know what a workload is or what console text means: that is
// internal/run's and checks/console's.
package vm
