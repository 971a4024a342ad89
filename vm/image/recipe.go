// SPDX-License-Identifier: Apache-2.0

package image

import (
	"maps"
	"slices"
	"strings"
)

// suite is where the packages come from: one fixed release, so that the guest
// does not change with the host.
const suite = "bookworm"

// recipe says what a layer holds.
type recipe struct {
	Name     string
	Packages []string          // of Debian, with their dependencies
	Files    []string          // paths in these packages; a trailing * is a prefix
	Applets  bool              // links to busybox
	Settings map[string]string // files of our own
	Dirs     []string
	Links    map[string]string
	Compile  *compile `json:",omitempty"` // a program built from source
}

// base is what every guest has: enough for an NFS server and client over
// RDMA, and a shell. modprobe and the like are busybox's: kmod would bring
// five megabytes of cryptography along for checking module signatures.
var base = recipe{
	Name:     "base",
	Packages: []string{"busybox-static", "nfs-kernel-server", "nfs-common", "rpcbind", "iproute2", "netbase", "libtirpc-common"},
	Files: []string{
		"bin/busybox",
		"usr/sbin/exportfs", "usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd", "usr/sbin/nfsdcld",
		"sbin/mount.nfs", "sbin/mount.nfs4", "sbin/umount.nfs", "sbin/umount.nfs4",
		"sbin/rpc.statd", "usr/sbin/sm-notify", "sbin/showmount", "usr/sbin/nfsstat", "usr/sbin/rpcdebug",
		"sbin/rpcbind", "usr/sbin/rpcinfo",
		"bin/ip", "usr/bin/rdma", "bin/ss",
		"etc/netconfig", "etc/protocols", "etc/rpc", "etc/services",
	},
	Applets: true,
	Settings: map[string]string{
		"etc/passwd": "root:x:0:0:root:/home:/bin/sh\n" +
			"_rpc:x:101:65534::/run/rpcbind:/usr/sbin/nologin\n" +
			"statd:x:102:65534::/var/lib/nfs:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
		"etc/hostname":      "patchcheck\n",
		"etc/hosts":         "127.0.0.1 localhost patchcheck\n::1 localhost\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nprotocols: files\nservices: files\nrpc: files\n",
		"etc/exports":       "",
		"etc/idmapd.conf":   "[General]\nDomain = patchcheck\n",
		"etc/nfs.conf":      "# The agent sets the server up; nothing starts by this file.\n",
		"etc/profile":       "PS1='guest:\\w# '\nexport PS1\n",
		"etc/shells":        "/bin/sh\n",
	},
	Dirs: []string{
		"dev", "proc", "sys", "run", "tmp", "home", "mnt", "srv", "etc/exports.d",
		"var/lib/nfs/rpc_pipefs", "var/lib/nfs/nfsdcld", "var/lib/nfs/sm", "var/lib/nfs/sm.bak", "var/lib/nfs/v4recovery",
		"var/log", "var/tmp",
	},
	Links: map[string]string{
		"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64",
		"var/run": "../run", "var/lock": "../run/lock", "etc/mtab": "../proc/self/mounts",
	},
}

// extra are the layers that only some plans need.
var extra = map[string]recipe{
	// rdma is for looking at a device by hand: user-space verbs and rping.
	"rdma": {
		Name:     "rdma",
		Packages: []string{"rdmacm-utils", "ibverbs-utils", "ibverbs-providers"},
		Files: []string{
			"usr/bin/rping", "usr/bin/ibv_devices", "usr/bin/ibv_devinfo", "usr/bin/ibv_rc_pingpong",
			"usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*", "usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav*",
			"etc/libibverbs.d/rxe.driver", "etc/libibverbs.d/siw.driver",
		},
	},
	// fio as Debian builds it needs 60 MB of client libraries of a storage
	// cluster, which take seconds of each start under TCG, and System V shared
	// memory, which the guest's kernel does not have.
	"fio": {
		Name: "fio",
		Compile: &compile{
			Source: "fio", Target: "fio", As: "usr/bin/fio",
			Configure: []string{"--build-static", "--disable-shm", "--disable-native", "--disable-numa", "--disable-rdma", "--disable-rados", "--disable-rbd",
				"--disable-http", "--disable-gfapi", "--disable-libnfs", "--disable-lex", "--disable-pmem", "--disable-xnvme", "--disable-libzbc",
				"--disable-tcmalloc", "--disable-dfs"},
		},
	},
}

func known() string { return strings.Join(slices.Sorted(maps.Keys(extra)), ", ") }

// Layers lists the optional layers.
func Layers() []string { return slices.Sorted(maps.Keys(extra)) }
