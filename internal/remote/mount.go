// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"slices"

	"patchcheck/checks/guestlog"
	"patchcheck/testplans"
)

// MountError is a mount on the client that failed, with the reason that the
// facts of both machines show. mount.nfs says "Protocol not supported" for
// several.
type MountError struct {
	Diagnosis guestlog.Diagnosis
	Err       error // of mount, with its own words
}

func (e *MountError) Error() string {
	s := "the NFS mount failed: " + e.Diagnosis.Message
	if e.Diagnosis.Hint != "" {
		s += "; " + e.Diagnosis.Hint
	}
	return s + ". " + e.Err.Error()
}

func (e *MountError) Unwrap() error { return e.Err }

// whyNoMount asks both machines again, now that the mount was tried: it is what
// loads the client's transport. A fact that cannot be had is not blamed.
func whyNoMount(ctx context.Context, server, client *Host, p *testplans.Plan, err error) error {
	var ce *CommandError
	if !errors.As(err, &ce) || ctx.Err() != nil {
		return err
	}
	try := guestlog.MountTry{Output: ce.Stderr, Version: p.Measure.NFS, Proto: p.Fabric.Proto, Port: p.Fabric.Port}
	if f, err := server.Facts(ctx); err == nil {
		try.Portlist, try.ServerVersions = listeners(f.Portlist), f.Versions
	}
	if f, err := client.Facts(ctx); err == nil {
		try.ClientModule = f.Transport
	}
	d, ok := guestlog.DiagnoseMount(try)
	if !ok {
		return err
	}
	return &MountError{Diagnosis: d, Err: err}
}

// listeners are the lines of a portlist, each once: nfsd has a line for each
// address that it listens on, and a server may have many. Nil stays nil.
func listeners(portlist []string) []string {
	out := slices.Clone(portlist)
	slices.Sort(out)
	return slices.Compact(out)
}
