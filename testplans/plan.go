// SPDX-License-Identifier: Apache-2.0

// Package testplans owns the plan: its schema, the strict loader, the cells it
// expands to, and the plans that come with the tool. It runs nothing.
package testplans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Plan says what to build, which cells to run, what is counted and what must
// hold. docs/plans.md is the manual.
type Plan struct {
	Name     string               `yaml:"name" json:"name"`
	About    string               `yaml:"about" json:"about"`
	Kernel   Kernel               `yaml:"kernel" json:"kernel"`
	Guest    Guest                `yaml:"guest" json:"guest"`
	Fabric   Fabric               `yaml:"fabric" json:"fabric"`
	Server   Server               `yaml:"server" json:"server"`
	Axes     Axes                 `yaml:"axes" json:"axes"`
	Kernels  map[string]Selection `yaml:"kernels" json:"kernels"`
	Workload []Work               `yaml:"workload" json:"workload"`
	// Reconnects is how often a cell unmounts and mounts again after its
	// workload: a connection that leaks, or that only the first can make, shows.
	Reconnects int      `yaml:"reconnects" json:"reconnects,omitempty"`
	Count      []Count  `yaml:"count" json:"count,omitempty"`
	Values     []Value  `yaml:"values" json:"values,omitempty"`
	Hold       []Hold   `yaml:"hold" json:"hold,omitempty"`
	Same       []Same   `yaml:"same" json:"same,omitempty"`
	Memory     Memory   `yaml:"memory" json:"memory"`
	NotTested  []string `yaml:"not_tested" json:"not_tested,omitempty"`
	Table      Table    `yaml:"table" json:"table"`
	Predict    *Predict `yaml:"predict" json:"predict,omitempty"`
	Debug      *Debug   `yaml:"debug" json:"debug,omitempty"`
	Measure    *Measure `yaml:"measure" json:"measure,omitempty"`

	// Slow multiplies the deadlines of guest steps; 1 unless Debug was applied.
	Slow int `yaml:"-" json:"slow,omitempty"`
	// Debugged says that the debug section was applied.
	Debugged bool `yaml:"-" json:"debugged,omitempty"`
}

// Kernel names what the guest kernels are built from.
type Kernel struct {
	Configs    []string `yaml:"configs" json:"configs"`       // fragments of kernel-configs, or paths
	Companions []string `yaml:"companions" json:"companions"` // folders of patches/bundled, or paths
}

// Guest sizes the virtual machine.
type Guest struct {
	CPUs   int      `yaml:"cpus" json:"cpus"`
	Memory Size     `yaml:"memory" json:"memory"`
	Append []string `yaml:"append" json:"append,omitempty"` // kernel command line words
	Layers []string `yaml:"layers" json:"layers,omitempty"` // of the guest image: fio
}

// Fabric is the network between the NFS client and the server, both in one
// guest.
type Fabric struct {
	Proto   string `yaml:"proto" json:"proto"` // rdma or tcp
	Port    int    `yaml:"port" json:"port"`
	Netdev  string `yaml:"netdev" json:"netdev"`
	Address string `yaml:"address" json:"address"` // IPv4 with prefix length
	Link    string `yaml:"link" json:"link"`       // RDMA link name
	Type    string `yaml:"type" json:"type"`       // RDMA link type
	Module  string `yaml:"module" json:"module"`   // whose parameters a device's params are
}

// Server is the NFS server's export.
type Server struct {
	Export  string `yaml:"export" json:"export"`
	FS      string `yaml:"fs" json:"fs"`
	Size    Size   `yaml:"size" json:"size"`
	Threads int    `yaml:"threads" json:"threads"`
}

// Axes span the matrix.
type Axes struct {
	Device []Device `yaml:"device" json:"device"`
	NFS    []string `yaml:"nfs" json:"nfs"`
}

// Device is one value of the device axis.
type Device struct {
	Name   string            `yaml:"name" json:"name"`
	Label  map[string]string `yaml:"label" json:"label,omitempty"`
	Params map[string]Number `yaml:"params" json:"params,omitempty"`
	// NFS restricts the device to some of the axis' versions.
	NFS []string `yaml:"nfs" json:"nfs,omitempty"`
	// Aside says what the device stands for and keeps it out of the table.
	Aside string `yaml:"aside" json:"aside,omitempty"`
	// Facts are numbers that hold expressions read as device.NAME.
	Facts map[string]Number `yaml:"facts" json:"facts,omitempty"`
}

// Selection restricts a kernel's cells; an empty list means every value.
type Selection struct {
	Device []string `yaml:"device" json:"device,omitempty"`
	NFS    []string `yaml:"nfs" json:"nfs,omitempty"`
}

// Work is one part of the workload; exactly one of File, Files and Recall is
// set.
type Work struct {
	Name  string     `yaml:"name" json:"name"`
	File  *FileWork  `yaml:"file" json:"file,omitempty"`
	Files *FilesWork `yaml:"files" json:"files,omitempty"`
	// Recall is done in cells of NFSv4 only.
	Recall *RecallWork `yaml:"recall" json:"recall,omitempty"`
	// Uncounted leaves it out of the values and the table, because its number
	// of RPCs varies; conditions hold for it all the same.
	Uncounted bool `yaml:"uncounted" json:"uncounted,omitempty"`
}

// FileWork writes one file, compares it on the server, drops the client's
// cache and reads it back with each of the read sizes.
type FileWork struct {
	Size   Size   `yaml:"size" json:"size"`
	Write  Size   `yaml:"write" json:"write"` // bytes per write call
	Read   []Size `yaml:"read" json:"read"`   // bytes per read call; need not be aligned
	Direct bool   `yaml:"direct" json:"direct"`
	// Parallel is the number of calls in flight; 0 and 1 mean one.
	Parallel int `yaml:"parallel" json:"parallel,omitempty"`
}

// FilesWork writes many small files and reads them back.
type FilesWork struct {
	Count int  `yaml:"count" json:"count"`
	Min   Size `yaml:"min" json:"min"`
	Max   Size `yaml:"max" json:"max"`
}

// RecallWork has the server write to files that the client has open with a
// delegation, so that it must call the client back.
type RecallWork struct {
	Count int `yaml:"count" json:"count"`
}

// Count is a histogram kept by the guest kernel over one event. Exactly one
// of Tracepoint, Event, Function and Return is set.
type Count struct {
	Name       string            `yaml:"name" json:"name"`
	Tracepoint string            `yaml:"tracepoint" json:"tracepoint,omitempty"`
	Event      string            `yaml:"event" json:"event,omitempty"`
	Function   string            `yaml:"function" json:"function,omitempty"`
	Return     string            `yaml:"return" json:"return,omitempty"`
	Object     string            `yaml:"object" json:"object,omitempty"` // object file whose debug info knows Arg
	Arg        string            `yaml:"arg" json:"arg,omitempty"`       // type that the first argument points to
	ArgIndex   int               `yaml:"arg_index" json:"arg_index,omitempty"`
	Fields     map[string]string `yaml:"fields" json:"fields,omitempty"`     // name -> member path, or a raw fetch argument ("$retval:s32")
	Optional   []string          `yaml:"optional" json:"optional,omitempty"` // fields that a kernel may lack
	Keys       []string          `yaml:"keys" json:"keys,omitempty"`         // default: all fields
	Filter     string            `yaml:"filter" json:"filter,omitempty"`
	Entries    int               `yaml:"entries" json:"entries,omitempty"` // rows of the histogram, a power of two; default 4096
}

// Value is a number derived from histograms, per cell.
type Value struct {
	Name  string   `yaml:"name" json:"name"`
	From  []string `yaml:"from" json:"from"`             // names of counts; hits are added
	Where string   `yaml:"where" json:"where,omitempty"` // expression over a row's keys
	Only  string   `yaml:"only" json:"only,omitempty"`   // instead of hits: the one value of this key
	On    string   `yaml:"on" json:"on,omitempty"`       // base or patched; empty: both
}

// Hold is a condition that each cell must fulfil.
type Hold struct {
	ID   string `yaml:"id" json:"id"`
	On   string `yaml:"on" json:"on,omitempty"`     // base or patched; empty: both
	When string `yaml:"when" json:"when,omitempty"` // applies only where this is true
	That string `yaml:"that" json:"that"`
	Why  string `yaml:"why" json:"why"`
	// Always: it holds at any moment, so also for a workload that did not come
	// to its end.
	Always bool `yaml:"always" json:"always,omitempty"`
}

// Same says what the series must not change: the counted part of the workload
// has events of the same kinds, and as many of each, on both kernels.
type Same struct {
	ID    string   `yaml:"id" json:"id"`
	Count string   `yaml:"count" json:"count"`
	Keys  []string `yaml:"keys" json:"keys"` // of the count; they make up a kind
	Why   string   `yaml:"why" json:"why"`
}

// Memory bounds what a cell may leave behind.
type Memory struct {
	Growth Size `yaml:"growth" json:"growth,omitempty"` // unreclaimable slab per cell, steady
}

// Table describes the cover letter's table: one row per device.
type Table struct {
	Columns []Column `yaml:"columns" json:"columns"`
}

// Column shows a device's label or a value of its cells.
type Column struct {
	Head  string `yaml:"head" json:"head"`
	Value string `yaml:"value" json:"value"`
	Unit  string `yaml:"unit" json:"unit,omitempty"`
	Sum   bool   `yaml:"sum" json:"sum,omitempty"` // add over NFS versions instead of requiring equality
}

// Predict says how one value follows from the sizes of events and a limit, so
// that a report can tell the value at every other limit, and check it against
// what each cell measured.
type Predict struct {
	Value string `yaml:"value" json:"value"` // the value: how many events are of the kind ("inline")
	Count string `yaml:"count" json:"count"` // the count whose rows have sizes
	Size  string `yaml:"size" json:"size"`   // key of the count: what is compared with the limit, in bytes
	Limit string `yaml:"limit" json:"limit"` // the value that is a cell's limit ("granted")
	// Where tells, from a row's keys, the events that are of the kind as soon
	// as the limit allows their size. Without it that is known only from cells
	// in which they were of the kind, so only up to the largest limit measured.
	Where string `yaml:"where" json:"where,omitempty"`
	UpTo  int64  `yaml:"up_to" json:"up_to"`           // largest limit to tell it for
	About string `yaml:"about" json:"about,omitempty"` // title of the figure: "Replies that go inline"
}

// Debug replaces parts of the plan for a debug kernel, which is slower.
type Debug struct {
	Configs []string `yaml:"configs" json:"configs"` // added
	Memory  Size     `yaml:"memory" json:"memory,omitempty"`
	Append  []string `yaml:"append" json:"append,omitempty"`
	// Reconnects replaces the plan's, if not 0.
	Reconnects int               `yaml:"reconnects" json:"reconnects,omitempty"`
	Slow       int               `yaml:"slow" json:"slow,omitempty"`
	Workload   []Work            `yaml:"workload" json:"workload,omitempty"`
	Hold       map[string]string `yaml:"hold" json:"hold,omitempty"` // id -> that
}

// Size is a number of bytes, written as "4KiB", "8MiB", "1GiB" or plain.
type Size int64

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(node ast.Node) error {
	t := node.GetToken().Value
	n, mul := t, int64(1)
	for suffix, m := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(t, suffix); ok {
			n, mul = strings.TrimSpace(rest), m
		}
	}
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil || v < 0 || v > (1<<50)/mul {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is no size: write bytes, or a number with KiB, MiB or GiB", t), Token: node.GetToken()}
	}
	*s = Size(v * mul)
	return nil
}

func (s Size) String() string {
	for _, u := range []struct {
		m int64
		n string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s != 0 && int64(s)%u.m == 0 {
			return fmt.Sprintf("%d %s", int64(s)/u.m, u.n)
		}
	}
	return fmt.Sprintf("%d bytes", int64(s))
}

// Number is an integer in decimal or 0x notation.
type Number int64

// UnmarshalYAML reads a number.
func (n *Number) UnmarshalYAML(node ast.Node) error {
	t := node.GetToken().Value
	v, err := strconv.ParseInt(t, 0, 64)
	if err != nil {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is no whole number", t), Token: node.GetToken()}
	}
	*n = Number(v)
	return nil
}

// Roles of a kernel.
const (
	RolePatched = "patched"
	RoleBase    = "base"
)

// Cell is one point of the matrix.
type Cell struct {
	Kernel string `json:"kernel"` // RolePatched or RoleBase
	Device Device `json:"device"`
	NFS    string `json:"nfs"`
}

// ID names the cell: "patched/intel-216/v4.1".
func (c Cell) ID() string { return c.Kernel + "/" + c.Device.Name + "/v" + c.NFS }

// V4 says whether the cell's mount is of any NFSv4, which has delegations.
func (c Cell) V4() bool { return strings.HasPrefix(c.NFS, "4") }

// Cells expands the matrix: kernels in the order patched, base; then devices,
// then NFS versions, as written.
func (p *Plan) Cells() []Cell {
	var cells []Cell
	for _, k := range []string{RolePatched, RoleBase} {
		sel, ok := p.Kernels[k]
		if !ok {
			continue
		}
		for _, d := range p.Axes.Device {
			if !sel.device(d.Name) {
				continue
			}
			for _, v := range p.Axes.NFS {
				if sel.nfs(v) && (len(d.NFS) == 0 || slices.Contains(d.NFS, v)) {
					cells = append(cells, Cell{Kernel: k, Device: d, NFS: v})
				}
			}
		}
	}
	return cells
}

func (s Selection) device(n string) bool { return len(s.Device) == 0 || slices.Contains(s.Device, n) }
func (s Selection) nfs(n string) bool    { return len(s.NFS) == 0 || slices.Contains(s.NFS, n) }

// WithDebug returns the plan with its debug section applied.
func (p *Plan) WithDebug() (*Plan, error) {
	if p.Debug == nil {
		return nil, fmt.Errorf("plan %s has no debug section: add one (docs/plans.md) or run without --debug", p.Name)
	}
	q := *p
	d := p.Debug
	q.Debugged = true
	q.Slow = max(1, d.Slow)
	q.Kernel.Configs = append(append([]string{}, p.Kernel.Configs...), d.Configs...)
	q.Guest.Append = append(append([]string{}, p.Guest.Append...), d.Append...)
	if d.Memory > 0 {
		q.Guest.Memory = d.Memory
	}
	if d.Reconnects > 0 {
		q.Reconnects = d.Reconnects
	}
	if len(d.Workload) > 0 {
		q.Workload = d.Workload
	}
	q.Hold = append([]Hold{}, p.Hold...)
	for i := range q.Hold {
		if that, ok := d.Hold[q.Hold[i].ID]; ok {
			q.Hold[i].That = that
		}
	}
	return &q, nil
}
