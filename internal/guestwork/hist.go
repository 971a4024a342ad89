// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"patchcheck/internal/guestproto"
)

// histKey is one key of a histogram trigger.
type histKey struct {
	spec   string // as in the trigger: "flags", "len.hex", "common_pid.execname"
	field  string // as the hist file shows it: "flags", "common_pid"
	name   string // as our result shows it: "flags", "execname"
	mod    string // "", hex, execname, log2, ...
	signed bool   // the field's type in the event's format file
}

// keyModifiers are those of hist triggers whose output parseHist knows
// (kernel Documentation/trace/histogram.rst).
var keyModifiers = []string{"hex", "execname", "log2", "sym", "sym-offset", "syscall"}

// parseKeys checks the keys of a probe. No key at all becomes the event's type,
// which is the same in every event of one kind: one row.
func parseKeys(specs []string) ([]histKey, error) {
	if len(specs) > guestproto.MaxHistKeys {
		return nil, usagef("a histogram takes at most %d keys, not %d (%s)", guestproto.MaxHistKeys, len(specs), strings.Join(specs, ", "))
	}
	if len(specs) == 0 {
		return []histKey{{spec: "common_type", field: "common_type"}}, nil
	}
	var keys []histKey
	for _, s := range specs {
		field, mod, _ := strings.Cut(s, ".")
		if !isIdentifier(field) {
			return nil, usagef("the histogram key %q is no field name", s)
		}
		if field == "common_stacktrace" || field == "stacktrace" {
			return nil, usagef("stack traces are not supported as histogram keys")
		}
		if mod != "" && !slices.Contains(keyModifiers, mod) {
			return nil, usagef("the modifier of the histogram key %q is none of %s", s, strings.Join(keyModifiers, ", "))
		}
		k := histKey{spec: s, field: field, name: field, mod: mod}
		if mod == "execname" {
			if field != "common_pid" {
				return nil, usagef("the histogram key %q: only common_pid has an execname", s)
			}
			k.name = "execname"
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// isIdentifier tells whether s is a C identifier, as the kernel wants names of
// events and fields.
func isIdentifier(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

// parseHist reads a histogram from the text of an event's hist file, which
// holds one per trigger (kernel/trace/trace_events_hist.c,
// hist_trigger_show). The right one is told by its keys and filter. The
// totals at its end must be there and agree with the rows: a histogram without
// them was cut short.
func parseHist(text string, keys []histKey, filter string) (guestproto.Hist, error) {
	const header = "# trigger info: "
	var specs []string
	for _, k := range keys {
		specs = append(specs, k.spec)
	}
	want := "hist:keys=" + strings.Join(specs, ",") + ":"
	for _, block := range strings.Split(text, "# event histogram")[1:] {
		_, rest, ok := strings.Cut(block, header)
		if !ok {
			continue
		}
		info, body, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(info, want) || filterOf(info) != filter {
			continue
		}
		return parseHistBody(body, keys)
	}
	return guestproto.Hist{}, fmt.Errorf("no histogram with keys %s in the hist file", strings.Join(specs, ","))
}

// filterOf gives the filter of a "trigger info" line:
// "hist:keys=a:vals=hitcount:sort=hitcount:size=2048 if a > 1 [active]".
func filterOf(info string) string {
	info = strings.TrimSpace(info)
	if i := strings.LastIndex(info, " ["); i >= 0 && strings.HasSuffix(info, "]") {
		info = info[:i]
	}
	_, filter, _ := strings.Cut(info, " if ")
	return strings.TrimSpace(filter)
}

func parseHistBody(body string, keys []histKey) (guestproto.Hist, error) {
	var h guestproto.Hist
	sums := map[string]*guestproto.HistRow{}
	var order []string
	totals := map[string]int64{}
	entries, hits := int64(0), int64(0)
	inTotals := false
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\n")
		t := strings.TrimSpace(line)
		switch {
		case t == "" || t == "#":
		case t == "Totals:":
			inTotals = true
		case inTotals:
			k, v, ok := strings.Cut(t, ":")
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			if !ok || err != nil {
				return h, fmt.Errorf("cannot understand the line %q in the totals of a histogram", t)
			}
			totals[k] = n
		case strings.HasPrefix(t, "{ "):
			row, err := parseHistRow(t, keys)
			if err != nil {
				return h, err
			}
			entries++
			hits += row.Hits
			id := rowID(row.Keys)
			if have := sums[id]; have != nil {
				have.Hits += row.Hits
				continue
			}
			sums[id] = &row
			order = append(order, id)
		default:
			return h, fmt.Errorf("cannot understand the line %q of a histogram", t)
		}
	}
	for _, k := range []string{"Hits", "Entries", "Dropped"} {
		if _, ok := totals[k]; !ok {
			return h, fmt.Errorf("a histogram has no total %q: it was cut short", k)
		}
	}
	h.Hits, h.Entries, h.Dropped = totals["Hits"], totals["Entries"], totals["Dropped"]
	if entries != h.Entries {
		return h, fmt.Errorf("a histogram shows %d rows, its total says %d entries: it was cut short", entries, h.Entries)
	}
	// Rows of all hits that were not dropped; while events go on coming the
	// total may be ahead of rows that were printed earlier.
	if hits > h.Hits {
		return h, fmt.Errorf("the rows of a histogram sum to %d hits, its total says %d", hits, h.Hits)
	}
	slices.Sort(order)
	h.Rows = make([]guestproto.HistRow, 0, len(order))
	for _, id := range order {
		h.Rows = append(h.Rows, *sums[id])
	}
	return h, nil
}

// rowID orders rows; numbers of equal width compare as numbers.
func rowID(keys map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, "%s=%20s\x00", k, keys[k])
	}
	return b.String()
}

// parseHistRow reads "{ flags:         10, len:        124 } hitcount:     5".
// String values are padded with spaces and may hold commas and braces, so the
// known names of the keys are what separates.
func parseHistRow(line string, keys []histKey) (guestproto.HistRow, error) {
	row := guestproto.HistRow{Keys: map[string]string{}}
	bad := func(why string) (guestproto.HistRow, error) {
		return row, fmt.Errorf("cannot understand the histogram row %q: %s", line, why)
	}
	i := strings.LastIndex(line, "}")
	if i < 0 {
		return bad("no closing brace")
	}
	// "hitcount:       5" or, asked for percentages, more after it.
	value := strings.TrimSpace(line[i+1:])
	count, ok := strings.CutPrefix(value, "hitcount:")
	f := strings.Fields(count)
	if !ok || len(f) == 0 {
		return bad("no hit count")
	}
	n, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return bad("the hit count is no number")
	}
	row.Hits = n
	rest := strings.TrimPrefix(line[:i], "{ ")
	for j, k := range keys {
		var has bool
		if rest, has = strings.CutPrefix(rest, k.field+": "); !has {
			return bad("no key " + k.field)
		}
		v := rest
		if j+1 < len(keys) {
			next := ", " + keys[j+1].field + ": "
			at := strings.LastIndex(rest, next)
			if at < 0 {
				return bad("no key " + keys[j+1].field)
			}
			v, rest = rest[:at], rest[at+2:]
		}
		val, err := k.value(v)
		if err != nil {
			return bad(err.Error())
		}
		if k.name != "" {
			row.Keys[k.name] = val
		}
	}
	return row, nil
}

// value converts what the hist file shows of a key.
func (k histKey) value(s string) (string, error) {
	switch k.mod {
	case "execname", "syscall":
		// "nfsd            [       123]": the name may hold brackets too.
		i := strings.LastIndexByte(s, '[')
		if i < 0 {
			return "", fmt.Errorf("no number in brackets after %s", k.field)
		}
		return strings.TrimSpace(s[:i]), nil
	case "sym", "sym-offset":
		_, sym, ok := strings.Cut(s, "]")
		if !ok {
			return "", fmt.Errorf("no address in brackets before %s", k.field)
		}
		return strings.TrimSpace(sym), nil
	case "log2":
		s = strings.TrimSpace(s)
		exp, ok := strings.CutPrefix(s, "~ 2^")
		if !ok {
			return "", fmt.Errorf("%s is no power of two", k.field)
		}
		return strings.TrimSpace(exp), nil
	case "hex":
		n, err := strconv.ParseUint(strings.TrimSpace(s), 16, 64)
		if err != nil {
			return "", fmt.Errorf("%s is no hexadecimal number", k.field)
		}
		return k.number(n), nil
	}
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return k.number(n), nil
	}
	if x, ok := strings.CutPrefix(s, "0x"); ok {
		if n, err := strconv.ParseUint(x, 16, 64); err == nil {
			return k.number(n), nil
		}
	}
	return s, nil // a string field
}

// number undoes that the kernel prints every number as unsigned 64-bit.
func (k histKey) number(n uint64) string {
	if k.signed {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(n, 10)
}

// parseFormat gives the fields of an event's format file and whether each is
// signed.
func parseFormat(s string) map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(s) {
		decl, ok := strings.CutPrefix(strings.TrimSpace(line), "field:")
		if !ok {
			continue
		}
		parts := strings.Split(decl, ";")
		f := strings.Fields(parts[0])
		if len(f) == 0 {
			continue
		}
		name, _, _ := strings.Cut(f[len(f)-1], "[")
		m[strings.TrimLeft(name, "*")] = slices.ContainsFunc(parts, func(p string) bool { return strings.TrimSpace(p) == "signed:1" })
	}
	return m
}
