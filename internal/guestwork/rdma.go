// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchcheck/internal/guestproto"
)

// linkLimit bounds the wait for a port to become active. rxe's is at once
// when its netdev is up.
const linkLimit = 10 * time.Second

// linkSet serves VerbLinkSet: an old link of that name goes, the module's
// parameters are written, then the link is made, since a driver reads them
// when a link is added.
func (w *work) linkSet(ctx context.Context, r *guestproto.LinkSet, log func(string)) (*guestproto.Link, error) {
	if err := checkLink(r); err != nil {
		return nil, err
	}
	if _, err := os.Stat(w.path("/sys/class/net/" + r.Netdev)); err != nil {
		return nil, setupf("nfs.start makes it ready; the guest has "+strings.Join(netdevNames(), ", "), "the guest has no network device %s", r.Netdev)
	}
	if err := w.delLink(r.Name); err != nil {
		return nil, err
	}
	if err := w.setParams(r.Module, r.Params); err != nil {
		return nil, err
	}
	if err := netlink.RdmaLinkAdd(r.Name, r.Type, r.Netdev); err != nil {
		return nil, linkAddError(r, err)
	}
	state, err := w.awaitActive(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	return &guestproto.Link{Name: r.Name, State: state, Facts: w.linkFacts(r)}, nil
}

func checkLink(r *guestproto.LinkSet) error {
	for what, v := range map[string]string{"link": r.Name, "type": r.Type, "netdev": r.Netdev} {
		if v == "" || strings.ContainsAny(v, "/ \t\n") || strings.HasPrefix(v, ".") {
			return usagef("the %s name %q of an RDMA link is empty or not a name", what, v)
		}
	}
	if len(r.Params) > 0 && (r.Module == "" || strings.ContainsAny(r.Module, "/ .")) {
		return usagef("the module name %q for the parameters of link %s is not a name", r.Module, r.Name)
	}
	return nil
}

// setParams writes module parameters and reads them back.
func (w *work) setParams(module string, params map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(params)) {
		p := filepath.Join("/sys/module", module, "parameters", k)
		if strings.ContainsAny(k, "/.") {
			return usagef("the parameter name %q is not a name", k)
		}
		if _, err := os.Stat(w.path(p)); err != nil {
			return setupf("the companion patch that adds it is not in this kernel, or the plan misspells it", "module %s has no parameter %s (no %s)", module, k, p)
		}
		if err := writeOnce(w.path(p), params[k]+"\n"); err != nil {
			return withErrno(setupf("the value has to fit the parameter's type", "cannot write %q to %s", params[k], p), err)
		}
		b, err := os.ReadFile(w.path(p))
		if err != nil {
			return withErrno(setupf("", "cannot read %s back", p), err)
		}
		if got := strings.TrimSpace(string(b)); !sameValue(got, params[k]) {
			return setupf("", "%s shows %q after %q was written", p, got, params[k])
		}
	}
	return nil
}

// sameValue compares parameter values as numbers when both are ("0x10", "16").
func sameValue(a, b string) bool {
	x, err1 := strconv.ParseInt(a, 0, 64)
	y, err2 := strconv.ParseInt(strings.TrimSpace(b), 0, 64)
	if err1 == nil && err2 == nil {
		return x == y
	}
	return a == strings.TrimSpace(b)
}

// linkAddError tells apart why a link cannot be made.
func linkAddError(r *guestproto.LinkSet, err error) *guestproto.Error {
	e := setupf("", "cannot make the RDMA link %s of type %s on %s", r.Name, r.Type, r.Netdev)
	switch no := errnoOf(err); {
	case no == unix.EINVAL:
		e.Hint = "the kernel knows no RDMA link type " + r.Type + " (driver " + r.Module + " neither built in nor loadable), or the driver refuses " + r.Netdev +
			": rxe takes any Ethernet netdev, siw no tunnels; the guest has " + strings.Join(netdevNames(), ", ")
	case no == unix.ENOENT:
		e.Hint = "a module that " + r.Type + " needs is missing (rxe: crc32_generic)"
	case no == unix.EPROTONOSUPPORT, errors.Is(err, unix.EAFNOSUPPORT):
		e.Hint = "the guest's kernel needs CONFIG_INFINIBAND"
	case no == unix.EOPNOTSUPP:
		e.Hint = "the kernel is older than 5.1 and cannot make RDMA links by netlink"
	case no == unix.EEXIST:
		e.Hint = "a netdev carries one link of a type; remove the other one first"
	case no == unix.ENOMEM:
		e.Class = guestproto.ClassResource
	}
	return withErrno(e, err)
}

// awaitActive waits until port 1 of the device is active: "4: ACTIVE".
func (w *work) awaitActive(ctx context.Context, name string) (string, error) {
	file := filepath.Join("/sys/class/infiniband", name, "ports/1/state")
	limit := time.NewTimer(linkLimit)
	defer limit.Stop()
	state := ""
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		b, err := os.ReadFile(w.path(file))
		if err != nil {
			return "", withErrno(setupf("", "the link %s was made, but %s cannot be read", name, file), err)
		}
		_, state, _ = strings.Cut(strings.TrimSpace(string(b)), ": ")
		if state == "ACTIVE" {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-limit.C:
			return state, setupf("its netdev has to be up and have an address", "the link %s is %s, not ACTIVE, after %v", name, state, linkLimit)
		case <-time.After(pause):
		}
	}
}

// linkFacts collects what sysfs shows of a device and its driver's parameters.
func (w *work) linkFacts(r *guestproto.LinkSet) map[string]string {
	facts := map[string]string{}
	dev := filepath.Join("/sys/class/infiniband", r.Name)
	for _, f := range []string{"node_type", "node_guid", "fw_ver", "hca_type", "ports/1/rate", "ports/1/link_layer"} {
		if b, err := os.ReadFile(w.path(filepath.Join(dev, f))); err == nil {
			facts[filepath.Base(f)] = strings.TrimSpace(string(b))
		}
	}
	for k := range r.Params {
		if b, err := os.ReadFile(w.path(filepath.Join("/sys/module", r.Module, "parameters", k))); err == nil {
			facts["param."+k] = strings.TrimSpace(string(b))
		}
	}
	return facts
}

// linkDel serves VerbLinkDel.
func (w *work) linkDel(ctx context.Context, r *guestproto.LinkDel, log func(string)) (any, error) {
	if r.Name == "" {
		return nil, usagef("no RDMA link was named")
	}
	if _, err := os.Stat(w.path("/sys/class/infiniband/" + r.Name)); err != nil {
		return nil, usagef("there is no RDMA link %s", r.Name)
	}
	return nil, w.delLink(r.Name)
}

// delLink removes a link if it is there and checks that it is gone.
func (w *work) delLink(name string) error {
	dir := w.path("/sys/class/infiniband/" + name)
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	if err := netlink.RdmaLinkDel(name); err != nil {
		return withErrno(kernelf("cannot remove the RDMA link %s", name), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return kernelf("the RDMA link %s was removed, but %s is still there", name, dir)
	}
	return nil
}
