// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"sync"

	"patchcheck/internal/guestproto"
)

// Handler serves one verb. A result may come with an error: it is then what
// was found up to the failure.
type Handler = func(ctx context.Context, req json.RawMessage, log func(string)) (any, error)

// Registrar is where verbs are made known.
type Registrar interface {
	Register(verb string, h Handler)
}

// work is the state that verbs share: running server programs, installed
// probes, what there was before a mount. There is one per guest.
type work struct {
	// root is put before every path of the kernel's virtual file systems;
	// tests set it to a folder.
	root string

	sums sums

	mu      sync.Mutex // guards what follows; one set-up verb at a time
	daemons map[string]*daemon
	probes  []probe
	before  map[string]map[string]int64 // RDMA resources before the mount at a place
}

// path gives the place of a file in /proc, /sys or /dev.
func (w *work) path(p string) string {
	if w.root == "" {
		return p
	}
	return filepath.Join(w.root, p)
}

// Register makes every verb known that this package serves: all of
// internal/guestproto except VerbFacts and VerbPoweroff.
func Register(r Registrar) {
	for verb, h := range Verbs() {
		r.Register(verb, h)
	}
}

// Verbs gives the handlers by verb. They share state, so a guest calls this
// once.
func Verbs() map[string]Handler {
	w := &work{daemons: map[string]*daemon{}, before: map[string]map[string]int64{}}
	return map[string]Handler{
		guestproto.VerbNFSStart:  verb(w.nfsStart),
		guestproto.VerbNFSListen: verb(w.nfsListen),
		guestproto.VerbLinkSet:   verb(w.linkSet),
		guestproto.VerbLinkDel:   verb(w.linkDel),
		guestproto.VerbMount:     verb(w.mount),
		guestproto.VerbUmount:    verb(w.umount),
		guestproto.VerbWrite:     verb(w.write),
		guestproto.VerbRead:      verb(w.read),
		guestproto.VerbHash:      verb(w.hash),
		guestproto.VerbFiles:     verb(w.files),
		guestproto.VerbRecall:    verb(w.recall),
		guestproto.VerbRemove:    verb(w.remove),
		guestproto.VerbDrop:      verb(w.drop),
		guestproto.VerbFlip:      verb(w.flip),
		guestproto.VerbTrace:     verb(w.traceSet),
		guestproto.VerbTraceRead: verb(w.traceRead),
		guestproto.VerbTraceOff:  verb(w.traceOff),
		guestproto.VerbMemory:    verb(w.memory),
		guestproto.VerbDmesg:     verb(w.dmesg),
		guestproto.VerbMark:      verb(w.mark),
		guestproto.VerbSysrq:     verb(w.sysrq),
		guestproto.VerbStacks:    verb(w.stacks),
		guestproto.VerbCounters:  verb(w.counters),
		guestproto.VerbLeaks:     verb(w.leaks),
		guestproto.VerbFio:       verb(w.fio),
		guestproto.VerbSample:    verb(w.sample),
	}
}

// verb turns a typed function into a Handler. A request with an unknown field
// is refused: host and guest are built from one source.
func verb[Req, Res any](f func(context.Context, *Req, func(string)) (Res, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage, log func(string)) (any, error) {
		var req Req
		if len(bytes.TrimSpace(raw)) > 0 {
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&req); err != nil {
				return nil, usagef("malformed request: %v", err)
			}
		}
		if log == nil {
			log = func(string) {}
		}
		res, err := f(ctx, &req, log)
		return orNil(res), err
	}
}

// orNil turns a typed nil pointer into nil, which JSON shows as no result.
func orNil(v any) any {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && rv.IsNil() {
		return nil
	}
	return v
}
