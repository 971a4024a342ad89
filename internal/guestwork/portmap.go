// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Numbers of ONC RPC (RFC 5531) and of the port mapper, version 2 (RFC 1833).
const (
	rpcVersion   = 2
	pmapProg     = 100000
	pmapVers     = 2
	pmapDump     = 4
	mountProg    = 100005
	pmapAddress  = "127.0.0.1:111"
	protoTCP     = 6
	lastFragment = 1 << 31
	maxReply     = 64 << 10
)

// mapping is one program that the port mapper knows.
type mapping struct{ prog, vers, proto, port uint32 }

// dumpPortmap asks the port mapper of this guest what is registered. It
// answers only when it is ready to register others.
func dumpPortmap(addr string) ([]mapping, error) {
	c, err := net.DialTimeout("tcp4", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	const xid = 0x70617463
	if _, err := c.Write(pmapDumpCall(xid)); err != nil {
		return nil, err
	}
	var head [4]byte
	var reply []byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(head[:])
		size := int(n &^ lastFragment)
		if len(reply)+size > maxReply {
			return nil, fmt.Errorf("the reply is longer than %d bytes", maxReply)
		}
		frag := make([]byte, size)
		if _, err := io.ReadFull(c, frag); err != nil {
			return nil, err
		}
		reply = append(reply, frag...)
		if n&lastFragment != 0 {
			return parseDump(reply, xid)
		}
	}
}

// pmapDumpCall is PMAPPROC_DUMP with null credentials as one record.
func pmapDumpCall(xid uint32) []byte {
	words := []uint32{lastFragment | 40, xid, 0, rpcVersion, pmapProg, pmapVers, pmapDump, 0, 0, 0, 0}
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// parseDump reads the reply's linked list.
func parseDump(b []byte, xid uint32) ([]mapping, error) {
	short := errors.New("the port mapper's reply is cut short")
	next := func() (uint32, bool) {
		if len(b) < 4 {
			return 0, false
		}
		v := binary.BigEndian.Uint32(b)
		b = b[4:]
		return v, true
	}
	head := make([]uint32, 6) // xid, REPLY, accepted, verifier flavor and length, status
	for i := range head {
		v, ok := next()
		if !ok {
			return nil, short
		}
		head[i] = v
	}
	if head[0] != xid || head[1] != 1 || head[2] != 0 || head[4] != 0 || head[5] != 0 {
		return nil, fmt.Errorf("the port mapper refused the call (reply %x)", head)
	}
	var all []mapping
	for {
		more, ok := next()
		if !ok {
			return nil, short
		}
		if more == 0 {
			return all, nil
		}
		var f [4]uint32
		for i := range f {
			if f[i], ok = next(); !ok {
				return nil, short
			}
		}
		all = append(all, mapping{f[0], f[1], f[2], f[3]})
	}
}

// portOf gives the port of a program, or 0.
func portOf(all []mapping, prog, vers, proto uint32) uint32 {
	for _, m := range all {
		if m.prog == prog && m.vers == vers && m.proto == proto {
			return m.port
		}
	}
	return 0
}
