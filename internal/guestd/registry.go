// SPDX-License-Identifier: Apache-2.0

package guestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"patchcheck/internal/guestproto"
)

// Handler serves one verb: req is the request as sent, log sends a progress
// line. A result beside an error is what was found up to the failure.
type Handler = func(ctx context.Context, req json.RawMessage, log func(string)) (any, error)

// Registry knows the verbs by name.
type Registry struct {
	mu    sync.Mutex
	verbs map[string]Handler
}

// Register makes a verb known. Registering one twice is a mistake in the
// agent, and stops it before it is ready.
func (r *Registry) Register(verb string, h Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verbs == nil {
		r.verbs = make(map[string]Handler)
	}
	if _, dup := r.verbs[verb]; dup {
		panic("verb registered twice: " + verb)
	}
	r.verbs[verb] = h
}

func (r *Registry) lookup(verb string) Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verbs[verb]
}

// serve runs one verb: the request is read from in to its end, and JSON lines
// go to out, the last with Done set. It says whether the verb succeeded.
func (r *Registry) serve(ctx context.Context, verb string, in io.Reader, out io.Writer) bool {
	var mu sync.Mutex // handlers may log from several goroutines
	finished := false
	enc := json.NewEncoder(out)
	send := func(m guestproto.Message) {
		mu.Lock()
		defer mu.Unlock()
		if !finished {
			finished = m.Done
			enc.Encode(m)
		}
	}
	fail := func(e *guestproto.Error) bool {
		send(guestproto.Message{Done: true, Error: e})
		return false
	}
	h := r.lookup(verb)
	if h == nil {
		return fail(&guestproto.Error{Class: guestproto.ClassUsage, Message: fmt.Sprintf("this guest knows no verb %q", verb), Hint: "the guest image is of another patchcheck; rebuild it"})
	}
	req, err := io.ReadAll(io.LimitReader(in, 16<<20))
	if err != nil {
		return fail(&guestproto.Error{Class: guestproto.ClassUsage, Message: "cannot read the request", Detail: err.Error()})
	}
	res, err := call(ctx, h, req, func(s string) { send(guestproto.Message{Log: s}) })
	m := guestproto.Message{Done: true}
	if err != nil {
		var ge *guestproto.Error
		if !errors.As(err, &ge) {
			ge = &guestproto.Error{Class: guestproto.ClassSetup, Message: err.Error()}
		}
		m.Error = ge
	}
	if res != nil {
		raw, merr := json.Marshal(res)
		if merr != nil {
			return fail(&guestproto.Error{Class: guestproto.ClassUsage, Message: "result of " + verb + " cannot be encoded", Detail: merr.Error()})
		}
		m.Result = raw
	}
	send(m)
	return m.Error == nil
}

// call turns a panic of a handler into an error: PID 1 must not end.
func call(ctx context.Context, h Handler, req json.RawMessage, log func(string)) (res any, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, &guestproto.Error{Class: guestproto.ClassUsage, Message: fmt.Sprintf("the agent panicked: %v", p), Detail: string(debug.Stack()), Hint: "this is a bug in patchcheck"}
		}
	}()
	return h(ctx, req, log)
}
