// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"patchcheck/checks/guestlog"
	"patchcheck/internal/bench"
	"patchcheck/testplans"
)

// Booter measures on two machines. The user boots them; it says when, tells
// which kernel runs, and refuses to take one arm's kernel for another's. It is
// bench.Conduct's.
type Booter struct {
	Plan           *testplans.Plan
	Record         *bench.Experiment
	Server, Client Target
	Options        Options
	Address        string // of the server on the fabric; "" is its name for SSH
	// Dial logs in; default Dial.
	Dial func(ctx context.Context, t Target, o Options) (*Host, error)

	// Arm is the arm whose kernel runs now, as the user says; it is needed once
	// for each arm when there is nobody to ask. Its boot comes next.
	Arm string

	// Ask tells the user what to boot and returns when that is done, with
	// io.EOF when nobody answers. Nil: a measurement that needs another boot ends with *NeedsBootError.
	Ask func(ctx context.Context, text string) error
	// Note is told each command that changes something on a machine.
	Note func(line string)
	// Keep is given what the machines said of themselves at a boot.
	Keep func(n int, arm string, server, client Facts) error
	// SameBoot allows several measurements of one boot to count as boots.
	SameBoot bool
	// AA says that both arms run the same kernel.
	AA bool

	seen map[string]bool // boot ids that were measured
}

// NeedsBootError says what the user has to boot before the measurement can go
// on.
type NeedsBootError struct {
	Arm  string
	Text string
}

func (e *NeedsBootError) Error() string { return e.Text }

// Conduct is bench.Conduct with this Booter. A boot that the user has to make
// ends it with *NeedsBootError and leaves an experiment to be resumed.
func (b *Booter) Conduct(ctx context.Context, o bench.Observer) error {
	b.first()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := bench.Conduct(ctx, b.Record, stopper{b, cancel}, o)
	if cause := context.Cause(ctx); ForUser(cause) {
		return cause
	}
	return err
}

// ForUser tells whether err is about something that only the user can change:
// trying again is of no use, and the measurement can go on once it is done.
func ForUser(err error) bool {
	var nb *NeedsBootError
	var me *MissingError
	var hk *HostKeyError
	var ae *AuthError
	var mo *MountError
	return errors.As(err, &nb) || errors.As(err, &me) || errors.As(err, &hk) || errors.As(err, &ae) ||
		errors.As(err, &mo) && mo.Diagnosis.Class == guestlog.Setup
}

// first puts the arm that runs before the others of its block: a boot by hand
// is worth more than a random order within a pair.
func (b *Booter) first() {
	done := func(p bench.Place) bool {
		for _, x := range b.Record.Boots {
			if x.Block == p.Block && x.Arm == p.Arm && x.Rejected == "" {
				return true
			}
		}
		return false
	}
	order := b.Record.Order
	for i, p := range order {
		if p.Arm != b.Arm || p.Try != 1 || done(p) {
			continue
		}
		for j := i; j > 0 && order[j-1].Block == p.Block; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
		return
	}
}

// stopper ends the experiment, instead of repeating the boot, for what only
// the user can change.
type stopper struct {
	b      *Booter
	cancel context.CancelCauseFunc
}

func (s stopper) Boot(ctx context.Context, arm string, n int) (bench.Boot, error) {
	boot, err := s.b.Boot(ctx, arm, n)
	if ForUser(err) {
		s.cancel(err)
	}
	return boot, err
}

// Boot measures one boot of an arm.
func (b *Booter) Boot(ctx context.Context, arm string, n int) (bench.Boot, error) {
	out := bench.Boot{Arm: arm}
	server, client, sf, cf, err := b.await(ctx, arm)
	if err != nil {
		return out, err
	}
	defer server.Close()
	defer client.Close()
	out.Started = time.Now()
	address, err := b.address(ctx)
	if err != nil {
		return out, err
	}
	s, err := open(ctx, server, client, b.Plan, address)
	if err != nil {
		return out, err
	}
	b.Record.Mount = s.mounted
	out.Runs, err = s.runs(ctx, b.Record.Design)
	err = errors.Join(err, s.close())
	out.Elapsed = time.Since(out.Started)
	if err != nil {
		return out, err
	}
	if b.Keep != nil {
		if err := b.Keep(n, arm, sf, cf); err != nil {
			return out, err
		}
	}
	b.remember(arm, sf, cf)
	return out, nil
}

// await logs in to both machines, and asks for boots until the arm's kernel
// runs in a boot that was not measured yet.
func (b *Booter) await(ctx context.Context, arm string) (server, client *Host, sf, cf Facts, err error) {
	for confirmed := b.Arm == arm; ; confirmed = true {
		server, client, sf, cf, err = b.login(ctx)
		if err != nil {
			return
		}
		why := b.wrong(arm, confirmed, sf, cf)
		if why == "" {
			return
		}
		server.Close()
		client.Close()
		text := fmt.Sprintf("the next boot is one of the arm %q: boot its kernel on %s, and on %s if the series changes the client; %s", arm, b.Server.Host, b.Client.Host, why)
		if b.Ask == nil {
			return nil, nil, sf, cf, &NeedsBootError{Arm: arm, Text: text}
		}
		switch err = b.Ask(ctx, text); {
		case errors.Is(err, io.EOF): // nobody is there any more
			return nil, nil, sf, cf, &NeedsBootError{Arm: arm, Text: text}
		case err != nil:
			return nil, nil, sf, cf, err
		}
	}
}

// login connects and checks that both machines have what is needed.
func (b *Booter) login(ctx context.Context) (server, client *Host, sf, cf Facts, err error) {
	dial := b.Dial
	if dial == nil {
		dial = Dial
	}
	if server, err = dial(ctx, b.Server, b.Options); err != nil {
		return
	}
	if client, err = dial(ctx, b.Client, b.Options); err != nil {
		server.Close()
		return
	}
	server.note, client.note = b.Note, b.Note
	if sf, err = server.Facts(ctx); err == nil {
		cf, err = client.Facts(ctx)
	}
	if err == nil {
		err = ready(b.Plan, b.Server, b.Client, sf, cf)
	}
	if err != nil {
		server.Close()
		client.Close()
	}
	return
}

// Look logs in and says what the machines are; nothing is changed on them. The
// facts are there also with a *MissingError.
func (b *Booter) Look(ctx context.Context) (server, client Facts, err error) {
	sh, ch, sf, cf, err := b.login(ctx)
	if err == nil {
		sh.Close()
		ch.Close()
	}
	return sf, cf, err
}

// ready says what both machines lack, all at once.
func ready(p *testplans.Plan, server, client Target, sf, cf Facts) error {
	lines := append(sf.missing("server", server, p.Fabric.Proto), cf.missing("client", client, p.Fabric.Proto)...)
	if sf.Threads != nil && *sf.Threads == 0 {
		lines = append(lines, fmt.Sprintf("nfsd does not run on %s: start it (systemctl start nfs-server)", server.Host))
	} else if sf.Portlist != nil {
		if wrong, bad := guestlog.CheckPortlist(listeners(sf.Portlist), p.Fabric.Proto, p.Fabric.Port); bad {
			lines = append(lines, fmt.Sprintf("%s: %s: as root,  echo '%s %d' > /proc/fs/nfsd/portlist", server.Host, wrong, p.Fabric.Proto, p.Fabric.Port))
		}
	}
	if len(lines) > 0 {
		return &MissingError{lines}
	}
	return nil
}

// identity is an arm's pair of kernels.
func identity(sf, cf Facts) string { return "server " + sf.Kernel() + ", client " + cf.Kernel() }

// wrong says why what runs cannot be measured as the arm; "" when it can. Which
// kernel an arm has is for the user to say, once; after that it is checked.
func (b *Booter) wrong(arm string, confirmed bool, sf, cf Facts) string {
	id := identity(sf, cf)
	for _, a := range b.Record.Arms {
		switch {
		case a.Key == "" && a.Name == arm && !confirmed:
			if b.Ask == nil {
				return fmt.Sprintf("if it runs already (%s runs now), say so with --arm %s", id, arm)
			}
			return fmt.Sprintf("%s runs now", id)
		case a.Key == "":
		case a.Name == arm && a.Key != id:
			return fmt.Sprintf("%s runs now, and the %s arm was measured with %s", id, arm, a.Key)
		case a.Name != arm && a.Key == id && !b.AA:
			return fmt.Sprintf("%s runs now, and that is the %s arm", id, a.Name)
		}
	}
	if b.seen[sf.BootID] && !b.SameBoot {
		return fmt.Sprintf("this boot of %s was measured already, and boots are what is counted", b.Server.Host)
	}
	return ""
}

// remember fixes what an arm is, at its first boot, and describes the machines.
func (b *Booter) remember(arm string, sf, cf Facts) {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[sf.BootID] = true
	for i := range b.Record.Arms {
		if a := &b.Record.Arms[i]; a.Name == arm {
			a.Key, a.Release, a.Arch, a.Config = identity(sf, cf), sf.Release, sf.Arch, sf.Config
		}
	}
	b.Record.Hosts = []bench.Host{describe("server", sf), describe("client", cf)}
	if b.Record.Versions == nil {
		b.Record.Versions = map[string]string{}
	}
	b.Record.Versions["fio"] = cf.Fio
}

// Measured tells of boots that earlier sessions measured, by their boot ids.
func (b *Booter) Measured(ids ...string) {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	for _, id := range ids {
		b.seen[id] = true
	}
}

func describe(role string, f Facts) bench.Host {
	h := bench.Host{Role: role, CPU: f.CPU, CPUs: f.CPUs, Arch: f.Arch, MemMiB: f.MemMiB, OS: f.OS, Kernel: f.Kernel(), Governor: f.Governor}
	var links []string
	for _, l := range f.Links {
		if l.Active() {
			links = append(links, l.String())
		}
	}
	h.Link = strings.Join(links, "; ")
	return h
}

// address is the server's address on the fabric.
func (b *Booter) address(ctx context.Context) (string, error) {
	name := b.Address
	if name == "" {
		name = b.Server.Host
	}
	if net.ParseIP(name) != nil {
		return name, nil
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil || len(ips) == 0 {
		return "", fmt.Errorf("the server's address on the fabric is not known: %w; name it with --server-address", err)
	}
	return ips[0], nil
}

// Describe fills what a record says of a measurement on two machines.
func (b *Booter) Describe() {
	b.Record.Accel = bench.Accel{Name: "none", Reason: "real machines"}
	b.Record.Fabric = fmt.Sprintf("%s between %s and %s", b.Plan.Fabric.Proto, b.Server.Host, b.Client.Host)
	var jobs []bench.Job
	var left []string
	for i, j := range b.Plan.Measure.Jobs {
		if possible(j) {
			jobs = append(jobs, b.Record.Jobs[i])
		} else {
			left = append(left, j.Name)
		}
	}
	b.Record.Jobs = jobs
	if len(left) > 0 {
		b.Record.Limits = append(b.Record.Limits, "jobs that need patchcheck's agent were left out on these machines: "+strings.Join(left, ", "))
	}
	// This machine only looks on: its noise says nothing.
	b.Record.Limits = append(b.Record.Limits, "the noise of the two machines was not watched; their load at each boot is in bench/*-hosts.json")
}

// Quiet are noise limits for a machine that only looks on.
var Quiet = bench.NoiseLimits{Others: 2, Steal: 2, QEMUs: 1 << 20}
