// SPDX-License-Identifier: Apache-2.0

package guestproto

// RequestClock is an SSH global request of the host: set the clock to the
// uint64 of nanoseconds since 1970 in its payload.
const RequestClock = "clock@patchcheck"
