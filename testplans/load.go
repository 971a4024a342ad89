// SPDX-License-Identifier: Apache-2.0

package testplans

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/expr-lang/expr"

	"patchcheck/internal/guestproto"
	"patchcheck/internal/strictyaml"
)

//go:embed *.yaml
var embedded embed.FS

// Names lists the embedded plans.
func Names() []string {
	m, _ := fs.Glob(embedded, "*.yaml")
	for i := range m {
		m[i] = strings.TrimSuffix(m[i], ".yaml")
	}
	sort.Strings(m)
	return m
}

// Error is a plan that cannot be used: every message names line and column.
type Error struct {
	Name string
	Msgs []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("plan %s cannot be used:\n%s", e.Name, strings.Join(e.Msgs, "\n"))
}

// Load reads a plan by path, or by the name of an embedded one.
func Load(name string) (*Plan, error) {
	b, err := Source(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, b)
}

// Source is the text of a plan, by path or by the name of an embedded one. It
// has not been checked.
func Source(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "/") {
		b, err = embedded.ReadFile(strings.TrimSuffix(name, ".yaml") + ".yaml")
		if err != nil {
			return nil, &Error{name, []string{fmt.Sprintf("  no such file, and no bundled plan of that name (there are: %s)", strings.Join(Names(), ", "))}}
		}
	}
	if err != nil {
		return nil, &Error{name, []string{"  " + err.Error()}}
	}
	return b, nil
}

// Parse reads a plan from b; name is for messages.
func Parse(name string, b []byte) (*Plan, error) {
	p := &Plan{Slow: 1}
	if len(strings.TrimSpace(string(b))) == 0 {
		return nil, &Error{name, []string{"  the file is empty"}}
	}
	if err := strictyaml.Unmarshal(b, p); err != nil {
		return nil, &Error{name, []string{err.Error()}}
	}
	v := &validator{src: b}
	v.plan(p)
	if len(v.msgs) > 0 {
		return nil, &Error{name, v.msgs}
	}
	return p, nil
}

type validator struct {
	src  []byte
	msgs []string
}

// bad reports what is wrong at a YAML path, with the source excerpt.
func (v *validator) bad(path, format string, args ...any) {
	v.msgs = append(v.msgs, strictyaml.At(v.src, path, format, args...))
}

var (
	nfsVersions = []string{"3", "4.0", "4.1", "4.2"}
	protos      = []string{"rdma", "tcp"}
	roles       = []string{"", RoleBase, RolePatched}
)

func (v *validator) oneOf(path, what, got string, allowed []string) {
	if !slices.Contains(allowed, got) {
		v.bad(path, "%s %q is not known; allowed: %s", what, got, strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" }), ", "))
	}
}

func (v *validator) plan(p *Plan) {
	if p.Name == "" {
		v.bad("$", "the plan has no name")
	}
	if len(p.Kernel.Configs) == 0 {
		v.bad("$.kernel", "kernel.configs is empty: at least one config fragment is needed")
	}
	if p.Guest.CPUs < 1 || p.Guest.CPUs > 8 {
		v.bad("$.guest", "guest.cpus must be 1 to 8")
	}
	if p.Guest.Memory < 256<<20 {
		v.bad("$.guest", "guest.memory must be 256MiB or more")
	}
	v.oneOf("$.fabric.proto", "fabric.proto", p.Fabric.Proto, protos)
	if len(p.Axes.Device) == 0 {
		v.bad("$.axes", "axes.device is empty")
	}
	if len(p.Axes.NFS) == 0 {
		v.bad("$.axes", "axes.nfs is empty")
	}
	var devices []string
	facts := map[string]any{"name": ""}
	for i, d := range p.Axes.Device {
		at := fmt.Sprintf("$.axes.device[%d]", i)
		if d.Name == "" || strings.ContainsAny(d.Name, "/ \t") {
			v.bad(at, "a device needs a name without spaces or slashes")
		}
		if slices.Contains(devices, d.Name) {
			v.bad(at, "two devices are named %q", d.Name)
		}
		devices = append(devices, d.Name)
		for k := range d.Facts {
			facts[k] = 0
		}
		for _, n := range d.NFS {
			v.oneOf(at, "NFS version", n, p.Axes.NFS)
		}
		if len(d.Facts) != len(p.Axes.Device[0].Facts) {
			v.bad(at, "every device must give the same facts; %q gives %d, %q gives %d", d.Name, len(d.Facts), p.Axes.Device[0].Name, len(p.Axes.Device[0].Facts))
		}
	}
	for i, n := range p.Axes.NFS {
		v.oneOf(fmt.Sprintf("$.axes.nfs[%d]", i), "NFS version", n, nfsVersions)
	}
	if len(p.Kernels) == 0 && p.Measure == nil {
		v.bad("$", "kernels is empty: say patched: {} at least")
	}
	for k, s := range p.Kernels {
		if k != RolePatched && k != RoleBase {
			v.bad("$.kernels", "kernel %q is not known; allowed: %s, %s", k, RolePatched, RoleBase)
		}
		for _, d := range s.Device {
			v.oneOf("$.kernels."+k, "device", d, devices)
		}
		for _, n := range s.NFS {
			v.oneOf("$.kernels."+k, "NFS version", n, p.Axes.NFS)
		}
	}
	// A plan that only measures needs no workload of its own.
	if p.Measure == nil || len(p.Workload) > 0 {
		v.works("$.workload", p.Workload)
	}
	if p.Reconnects < 0 || p.Debug != nil && p.Debug.Reconnects < 0 {
		v.bad("$.reconnects", "reconnects is a number of connections, 0 or more")
	}
	if p.Debug != nil && len(p.Debug.Workload) > 0 {
		v.works("$.debug.workload", p.Debug.Workload)
	}
	v.counts(p, facts)
	if p.Measure != nil {
		v.measure(p)
	}
	if p.Debug != nil {
		ids := []string{}
		for _, h := range p.Hold {
			ids = append(ids, h.ID)
		}
		for id := range p.Debug.Hold {
			v.oneOf("$.debug.hold", "hold", id, ids)
		}
	}
}

func (v *validator) works(path string, works []Work) {
	if len(works) == 0 {
		v.bad("$", "workload is empty: a cell that moves no data proves nothing")
	}
	names := map[string]bool{}
	for i, w := range works {
		at := fmt.Sprintf("%s[%d]", path, i)
		if w.Name == "" || names[w.Name] || strings.ContainsAny(w.Name, "/ ") {
			v.bad(at, "each part of the workload needs a name of its own, without spaces or slashes")
		}
		names[w.Name] = true
		if !one(w.File != nil, w.Files != nil, w.Recall != nil) {
			v.bad(at, "workload %q must have exactly one of file, files and recall", w.Name)
			continue
		}
		if r := w.Recall; r != nil && (r.Count < 1 || r.Count > 1000) {
			v.bad(at, "recall needs count 1 to 1000")
		}
		if f := w.File; f != nil {
			if f.Size <= 0 || f.Write <= 0 || f.Size > 4<<30 {
				v.bad(at, "file needs a size up to 4GiB and a write size")
			} else if f.Direct && (f.Write%512 != 0 || f.Size%f.Write != 0) {
				v.bad(at, "direct writes need a write size that is a multiple of 512 and divides the size; %d does not", f.Write)
			}
			if f.Parallel < 0 || f.Parallel > 64 {
				v.bad(at, "parallel is the number of calls in flight, 1 to 64")
			}
			if len(f.Read) == 0 {
				v.bad(at, "file needs at least one read size: what is not read back is not tested")
			}
			for _, r := range f.Read {
				if r <= 0 {
					v.bad(at, "read sizes must be above 0")
				}
			}
		}
		if f := w.Files; f != nil && (f.Count <= 0 || f.Count > 100000 || f.Min < 0 || f.Max < f.Min || f.Max > 64<<20) {
			v.bad(at, "files needs count 1 to 100000 and min <= max <= 64MiB")
		}
	}
}

// one says whether exactly one of the keys is set.
func one(set ...bool) bool {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n == 1
}

func (v *validator) counts(p *Plan, facts map[string]any) {
	keys := map[string]map[string]any{} // count -> row environment
	for i, c := range p.Count {
		at := fmt.Sprintf("$.count[%d]", i)
		if c.Name == "" || keys[c.Name] != nil || !identifier(c.Name) {
			v.bad(at, "each count needs a name of its own, of letters, digits and _")
		}
		if !one(c.Tracepoint != "", c.Event != "", c.Function != "", c.Return != "") {
			v.bad(at, "count %q must have exactly one of tracepoint, event, function and return", c.Name)
		}
		if e := c.Entries; e != 0 && (e < 128 || e > 1<<17 || e&(e-1) != 0) {
			v.bad(at, "entries %d: a histogram has a power of two of rows, 128 to 131072", e)
		}
		for f, path := range c.Fields {
			if !identifier(f) {
				v.bad(at, "field %q: use letters, digits and _", f)
			}
			if !RawFetch(path) && (c.Object == "" || c.Arg == "") {
				v.bad(at, "field %q is a member path, so the count needs object: and arg:", f)
			}
		}
		for _, o := range c.Optional {
			if _, ok := c.Fields[o]; !ok {
				v.bad(at, "optional names %q, which is not in fields", o)
			}
		}
		if ks := c.HistKeys(); len(ks) > guestproto.MaxHistKeys {
			v.bad(at, "count %q has %d keys (%s); the kernel's histograms take %d: name those that matter in keys:, or make two counts", c.Name, len(ks), strings.Join(ks, ", "), guestproto.MaxHistKeys)
		}
		env := map[string]any{}
		for _, k := range c.HistKeys() {
			if strings.HasSuffix(k, ".execname") {
				env["execname"] = ""
				continue
			}
			env[k] = 0
		}
		keys[c.Name] = env
	}
	vals := map[string]any{"device": facts, "nfs": "", "kernel": ""}
	for i, x := range p.Values {
		at := fmt.Sprintf("$.values[%d]", i)
		if _, dup := vals[x.Name]; dup || !identifier(x.Name) {
			v.bad(at, "value %q: each value needs a name of its own, of letters, digits and _", x.Name)
		}
		vals[x.Name] = 0
		v.oneOf(at, "on", x.On, roles)
		if len(x.From) == 0 {
			v.bad(at, "value %q does not say from which counts", x.Name)
		}
		for _, from := range x.From {
			env, ok := keys[from]
			if !ok {
				v.bad(at, "value %q comes from %q, which is no count", x.Name, from)
				continue
			}
			if x.Where != "" {
				if _, err := expr.Compile(x.Where, expr.Env(env), expr.AsBool()); err != nil {
					v.bad(at+".where", "%v", err)
				}
			}
			if x.Only != "" {
				if _, ok := env[x.Only]; !ok {
					v.bad(at, "value %q wants the only %q, which is no key of %s", x.Name, x.Only, from)
				}
			}
		}
	}
	ids := map[string]bool{}
	for i, h := range p.Hold {
		at := fmt.Sprintf("$.hold[%d]", i)
		if h.ID == "" || ids[h.ID] {
			v.bad(at, "each hold needs an id of its own")
		}
		ids[h.ID] = true
		v.oneOf(at, "on", h.On, roles)
		exprs := map[string]string{"that": h.That}
		if h.When != "" {
			exprs["when"] = h.When
		}
		if p.Debug != nil && p.Debug.Hold[h.ID] != "" {
			exprs["debug"] = p.Debug.Hold[h.ID]
		}
		for k, src := range exprs {
			if _, err := expr.Compile(src, expr.Env(vals), expr.AsBool()); err != nil {
				sub := at + "." + k
				if k == "debug" {
					sub = "$.debug.hold"
				}
				v.bad(sub, "%v", err)
			}
		}
	}
	for i, x := range p.Same {
		at := fmt.Sprintf("$.same[%d]", i)
		if x.ID == "" || ids[x.ID] {
			v.bad(at, "each same needs an id of its own")
		}
		ids[x.ID] = true
		env, ok := keys[x.Count]
		if !ok {
			v.bad(at, "same compares %q, which is no count", x.Count)
		}
		if len(x.Keys) == 0 {
			v.bad(at, "same needs the keys to compare")
		}
		for _, k := range x.Keys {
			if _, has := env[k]; ok && !has {
				v.bad(at, "same compares the key %q, which %s does not have", k, x.Count)
			}
		}
	}
	if q := p.Predict; q != nil {
		const at = "$.predict"
		for _, n := range []string{q.Value, q.Limit} {
			if _, ok := vals[n].(int); !ok {
				v.bad(at, "predict names %q, which is no value of the plan", n)
			}
		}
		env, ok := keys[q.Count]
		if !ok {
			v.bad(at, "predict takes sizes from %q, which is no count", q.Count)
		} else if _, ok := env[q.Size]; !ok {
			v.bad(at, "predict wants the size %q, which is no key of %s", q.Size, q.Count)
		}
		if q.Where != "" && ok {
			if _, err := expr.Compile(q.Where, expr.Env(env), expr.AsBool()); err != nil {
				v.bad(at+".where", "%v", err)
			}
		}
		if q.UpTo < 1 || q.UpTo > 1<<20 {
			v.bad(at, "up_to must be 1 to 1048576 bytes")
		}
	}
	for i, c := range p.Table.Columns {
		_, val := vals[c.Value]
		label := false
		for _, d := range p.Axes.Device {
			if _, ok := d.Label[c.Value]; ok {
				label = true
			}
		}
		if !val && !label {
			v.bad(fmt.Sprintf("$.table.columns[%d]", i), "column %q shows %q, which is neither a value nor a device label", c.Head, c.Value)
		}
	}
}

// RawFetch reports whether a field is a fetch argument of the tracing
// subsystem itself ("$retval:s32") and no member path.
func RawFetch(s string) bool { return strings.ContainsAny(s, "$@+%") }

// HistKeys gives the histogram's keys: as written, else all fields in order.
func (c Count) HistKeys() []string {
	if len(c.Keys) > 0 {
		return c.Keys
	}
	var k []string
	for f := range c.Fields {
		k = append(k, f)
	}
	sort.Strings(k)
	return k
}

func identifier(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}
