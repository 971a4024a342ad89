// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"encoding/binary"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rdmaResources counts the kernel's RDMA resources by kind (qp, cq, mr, pd,
// cm_id, ...) over all devices; nil when it does not tell. The netlink
// package's own list gives up on attributes that it does not know.
func rdmaResources() map[string]int64 {
	req := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<10|nl.RDMA_NLDEV_CMD_RES_GET, unix.NLM_F_DUMP)
	msgs, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return nil
	}
	m := map[string]int64{}
	for _, msg := range msgs {
		addResources(m, msg)
	}
	return m
}

// addResources adds the resource summary of one device, a message of netlink
// attributes (include/uapi/rdma/rdma_netlink.h), to m.
func addResources(m map[string]int64, msg []byte) {
	eachAttr(msg, func(kind uint16, summary []byte) {
		if kind != nl.RDMA_NLDEV_ATTR_RES_SUMMARY {
			return
		}
		eachAttr(summary, func(kind uint16, entry []byte) {
			if kind != nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY {
				return
			}
			name, count := "", int64(0)
			eachAttr(entry, func(kind uint16, v []byte) {
				switch {
				case kind == nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
					name = strings.TrimRight(string(v), "\x00")
				case kind == nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR && len(v) >= 8:
					count = int64(binary.NativeEndian.Uint64(v))
				}
			})
			if name != "" {
				m[name] += count
			}
		})
	})
}

// eachAttr calls f for each netlink attribute in b, up to one that is cut
// short. The flags in the type are taken off.
func eachAttr(b []byte, f func(kind uint16, value []byte)) {
	const header = unix.SizeofNlAttr
	for len(b) >= header {
		size := int(binary.NativeEndian.Uint16(b))
		if size < header || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[header:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}
