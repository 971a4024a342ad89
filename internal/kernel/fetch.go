// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"patchcheck/internal/cache"
	"patchcheck/internal/proc"
	kernelconfigs "patchcheck/kernel-configs"
)

// FetchExpr asks for the fetch argument (kernel Documentation/trace/
// fprobetrace.rst) that reads a struct member of a probe's argument.
type FetchExpr struct {
	Object string `json:"object"` // "net/sunrpc/xprtrdma/svc_rdma_sendto.o": an object that knows the struct
	Struct string `json:"struct"` // "struct svc_rdma_send_ctxt": what the argument points to
	// Expr is a path of members: "." for a member by value, "->" through a
	// pointer, "[n]" for an element. A type of the tracing language may follow
	// after a colon and wins over the one that DWARF gives:
	// "sc_rdma->sc_max_inline_data", "sc_send_wr.send_flags:x32".
	Expr string `json:"expr"`
	Arg  int    `json:"arg"` // 1-based number of the probe's argument
}

func (e FetchExpr) String() string {
	return fmt.Sprintf("%s of %s ($arg%d, %s)", e.Expr, e.Struct, e.Arg, e.Object)
}

// FetchResult is the answer to one FetchExpr.
type FetchResult struct {
	Expr  FetchExpr
	Fetch string // "+568(+16($arg1)):u32"
	Err   error  // *NoMemberError, or a malformed expression
}

// NoMemberError is a struct or member that the kernel does not have, as on a
// base kernel when the series adds it.
type NoMemberError struct {
	Expr   FetchExpr `json:"expr"`
	Struct string    `json:"struct"`           // that lacks it
	Member string    `json:"member,omitempty"` // "" when the struct itself is missing
}

func (e *NoMemberError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("%s does not know %s", e.Expr.Object, e.Struct)
	}
	return fmt.Sprintf("%s has no member %s (seen from %s)", e.Struct, e.Member, e.Expr.Object)
}

// fetchName is the file in a kernel's entry that keeps answers. It is not in
// the entry's list of hashes, as answers are added later.
const fetchName = "fetch.json"

// answer is one FetchResult as kept.
type answer struct {
	Expr    FetchExpr      `json:"expr"`
	Fetch   string         `json:"fetch,omitempty"`
	Missing *NoMemberError `json:"missing,omitempty"`
}

func (a answer) result() FetchResult {
	r := FetchResult{Expr: a.Expr, Fetch: a.Fetch}
	if a.Missing != nil {
		r.Err = a.Missing
	}
	return r
}

func readAnswers(k *Kernel) map[FetchExpr]answer {
	m := map[FetchExpr]answer{}
	b, err := os.ReadFile(filepath.Join(k.Dir, fetchName))
	if err != nil {
		return m
	}
	var list []answer
	if json.Unmarshal(b, &list) != nil {
		return m
	}
	for _, a := range list {
		m[a.Expr] = a
	}
	return m
}

// Fetch resolves expressions for a kernel of the store; r is the request that
// gave it. Answers that are kept with the kernel need no workspace; others
// bring the workspace to the kernel's state and compile one object with debug
// information. Offsets are never taken over from another kernel: another
// configuration or patch moves members.
func (s *Store) Fetch(ctx context.Context, r Request, k *Kernel, exprs []FetchExpr) ([]FetchResult, error) {
	have := readAnswers(k)
	var want []FetchExpr
	for _, e := range exprs {
		if _, ok := have[e]; !ok && checkFetch(e) == nil {
			want = append(want, e)
		}
	}
	if len(want) > 0 {
		if err := s.fetchLater(ctx, r, k, want); err != nil {
			return nil, err
		}
		have = readAnswers(k)
	}
	out := make([]FetchResult, len(exprs))
	for i, e := range exprs {
		if err := checkFetch(e); err != nil {
			out[i] = FetchResult{Expr: e, Err: err}
			continue
		}
		a, ok := have[e]
		if !ok {
			return nil, fmt.Errorf("struct offsets of %v were resolved and not kept; is the cache folder read-only?", e)
		}
		out[i] = a.result()
	}
	return out, nil
}

func (s *Store) fetchLater(ctx context.Context, r Request, k *Kernel, want []FetchExpr) error {
	tc, err := FindToolchain(ctx, r.CC)
	if err != nil {
		return err
	}
	key, oh, err := r.key(ctx, tc)
	if err != nil {
		return err
	}
	if key != k.Key {
		return fmt.Errorf("the compiler or the sources changed since the kernel %s was built; build it again", k.Key)
	}
	w, err := OpenWorkspace(ctx, s.Cache, r.Tree, r.workspaceKey(), s.Notify)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.enter(ctx, &r, oh); err != nil {
		return err
	}
	opt := BuildOptions{W: r.W, C: r.C, Jobs: s.Jobs, NoSandbox: s.NoSandbox, Timeout: s.Timeout}
	if err := w.Configure(ctx, tc, r.Config, opt); err != nil {
		return err
	}
	// The object's command file has to be that of this state.
	seen := map[string]bool{}
	for _, e := range want {
		if !seen[e.Object] {
			seen[e.Object] = true
			opt.Targets = append(opt.Targets, e.Object)
		}
	}
	if _, err := w.Build(ctx, tc, r.Config, opt); err != nil {
		var be *BuildError
		if errors.As(err, &be) && strings.Contains(err.Error(), "No rule to make target") {
			return fmt.Errorf("%s: no such object in this kernel; its source may be gone or switched off in the configuration: %w", strings.Join(opt.Targets, ", "), err)
		}
		return err
	}
	return s.fetchIn(ctx, w, tc, k, want)
}

// fetchIn resolves in a workspace that is at the kernel's state and keeps the
// answers with the kernel.
func (s *Store) fetchIn(ctx context.Context, w *Workspace, tc *Toolchain, k *Kernel, exprs []FetchExpr) error {
	all := readAnswers(k)
	types := map[string]*dwarf.Data{}
	for _, e := range exprs {
		if checkFetch(e) != nil {
			continue
		}
		d, ok := types[e.Object]
		if !ok {
			var err error
			if d, err = w.debugInfo(ctx, tc, e.Object, s.NoSandbox); err != nil {
				return err
			}
			types[e.Object] = d
		}
		f, err := resolveFetch(d, e)
		var nm *NoMemberError
		switch {
		case err == nil:
			all[e] = answer{Expr: e, Fetch: f}
		case errors.As(err, &nm):
			all[e] = answer{Expr: e, Missing: nm}
		default:
			return fmt.Errorf("%v: %w", e, err)
		}
	}
	list := make([]answer, 0, len(all))
	for _, a := range all {
		list = append(list, a)
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	return cache.WriteFile(filepath.Join(k.Dir, fetchName), append(b, '\n'), 0o644)
}

var (
	reObject  = regexp.MustCompile(`^[A-Za-z0-9_+./-]+\.o$`)
	reStruct  = regexp.MustCompile(`^(?:(struct|union) )?([A-Za-z_][A-Za-z0-9_]*)$`)
	reSaved   = regexp.MustCompile(`^savedcmd_\S+ := (.*)`)
	reDepFile = regexp.MustCompile(`-Wp,-MM?D,\S+|-MF \S+|-MM?D\b`)
)

// checkFetch refuses what cannot be an expression.
func checkFetch(e FetchExpr) error {
	switch {
	case !reObject.MatchString(e.Object) || !filepath.IsLocal(e.Object) || path.Clean(e.Object) != e.Object:
		return fmt.Errorf("%q is no object file of a kernel, such as net/sunrpc/svc.o", e.Object)
	case !reStruct.MatchString(e.Struct):
		return fmt.Errorf("%q is no struct, such as \"struct svc_rqst\"", e.Struct)
	case e.Arg < 1 || e.Arg > 12:
		return fmt.Errorf("argument number %d is not between 1 and 12", e.Arg)
	}
	_, _, err := parsePath(e.Expr)
	return err
}

// debugInfo compiles an object again with -g, into a scratch file, with the
// command that kbuild saved for it.
func (w *Workspace) debugInfo(ctx context.Context, tc *Toolchain, object string, noSandbox bool) (*dwarf.Data, error) {
	dir, base := path.Split(object)
	b, err := w.readObj(path.Join(dir, "."+base+".cmd"), 4<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no object of this kernel: its source may be gone or switched off in the configuration", object)
	}
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	m := reSaved.FindStringSubmatch(first)
	if m == nil {
		return nil, fmt.Errorf("the command that made %s cannot be read", object)
	}
	scratch := filepath.Join(w.Dir, "scratch")
	if err := cache.RemoveAll(scratch); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return nil, explainFull(err, w.cache)
	}
	defer cache.RemoveAll(scratch)
	out := filepath.Join(scratch, "debug.o")
	cmd, err := debugCommand(m[1], object, out)
	if err != nil {
		return nil, err
	}
	sb, err := BuildOptions{NoSandbox: noSandbox}.sandbox(ctx)
	if err != nil {
		return nil, err
	}
	ro := append([]string{w.Src, w.Obj}, outside(tc.ccPath)...)
	if _, err := sb.run(ctx, ro, []string{scratch}, tc.env(), proc.Cmd{Argv: []string{"/bin/sh", "-c", cmd}, Dir: w.Obj, MaxOutput: 1 << 20}); err != nil {
		return nil, &InfraError{What: fmt.Sprintf("%s cannot be compiled with debug information", object), Err: err}
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open("debug.o")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 256<<20))
	if err != nil {
		return nil, err
	}
	return readDWARF(data)
}

// debugCommand changes a saved command: no dependency file, another output, no
// objtool after it, debug information of every type that is declared.
func debugCommand(saved, object, out string) (string, error) {
	// make's own escapes in a command file.
	saved = strings.NewReplacer("$(pound)", "#", "$$", "$").Replace(saved)
	if i := strings.Index(saved, " ; "); i >= 0 {
		saved = saved[:i]
	}
	if i := strings.Index(saved, " && "); i >= 0 {
		saved = saved[:i]
	}
	saved = reDepFile.ReplaceAllString(saved, "")
	to := " -o " + object + " "
	if strings.Count(saved+" ", to) != 1 || !strings.Contains(saved, " -c ") {
		return "", fmt.Errorf("the command that made %s is not a plain compile", object)
	}
	saved = strings.Replace(saved+" ", to, " -o "+proc.Quote([]string{out})+" ", 1)
	// CONFIG_DEBUG_INFO_REDUCED leaves out the types that are looked for here.
	saved = strings.ReplaceAll(saved, " -femit-struct-debug-baseonly ", " ")
	return saved + "-g -gdwarf-4 -gno-split-dwarf -fno-eliminate-unused-debug-types -w", nil
}

// readDWARF parses an object that untrusted code was compiled to; the standard
// library's readers return errors on junk, and a panic would be caught here.
func readDWARF(obj []byte) (d *dwarf.Data, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	f, err := elf.NewFile(bytes.NewReader(obj))
	if err != nil {
		return nil, fmt.Errorf("damaged object: %w", err)
	}
	defer f.Close()
	if d, err = f.DWARF(); err != nil {
		return nil, fmt.Errorf("damaged debug information: %w", err)
	}
	return d, nil
}

// step is one part of a path.
type step struct {
	name  string // member
	index int    // element, when name is ""
	deref bool   // "->" stood before it
}

// traceType are the types of the tracing language.
var traceType = regexp.MustCompile(`^(?:[usx](?:8|16|32|64)|char|string|ustring|symbol|symstr|%p[dD]|b[0-9]+@[0-9]+/[0-9]+)(?:\[[0-9]+\])?$`)

// parsePath cuts "a.b->c[2]:x32".
func parsePath(s string) (steps []step, typ string, err error) {
	expr, typ, has := strings.Cut(s, ":")
	if has && !traceType.MatchString(typ) {
		return nil, "", fmt.Errorf("%q: %q is no type of the kernel's dynamic events, such as u32 or x64", s, typ)
	}
	bad := func() ([]step, string, error) {
		return nil, "", fmt.Errorf("%q is no path of struct members, such as sc_rdma->sc_max_inline_data", s)
	}
	ident := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	rest := strings.TrimSpace(expr)
	deref := false
	for first := true; rest != "" || first; first = false {
		if !first {
			switch {
			case strings.HasPrefix(rest, "->"):
				rest, deref = rest[2:], true
			case strings.HasPrefix(rest, "."):
				rest, deref = rest[1:], false
			case strings.HasPrefix(rest, "["):
				num, after, ok := strings.Cut(rest[1:], "]")
				n, err := strconv.Atoi(num)
				if !ok || err != nil || n < 0 {
					return bad()
				}
				steps = append(steps, step{index: n})
				rest = after
				continue
			default:
				return bad()
			}
		}
		name := ident.FindString(rest)
		if name == "" {
			return bad()
		}
		steps = append(steps, step{name: name, deref: deref})
		rest = rest[len(name):]
	}
	return steps, typ, nil
}

// resolveFetch computes the fetch argument.
func resolveFetch(d *dwarf.Data, e FetchExpr) (s string, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = "", fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	steps, typ, err := parsePath(e.Expr)
	if err != nil {
		return "", err
	}
	m := reStruct.FindStringSubmatch(e.Struct)
	st, err := findStruct(d, m[1], m[2])
	if err != nil {
		return "", err
	}
	if st == nil {
		return "", &NoMemberError{Expr: e, Struct: e.Struct}
	}
	var cur dwarf.Type = st
	arg := fmt.Sprintf("$arg%d", e.Arg)
	var off int64
	var last *dwarf.StructField
	for _, p := range steps {
		t := resolveTypedef(cur)
		if p.name == "" {
			switch a := t.(type) {
			case *dwarf.ArrayType:
				off += int64(p.index) * a.Type.Size()
				cur = a.Type
			case *dwarf.PtrType:
				arg, off = fmt.Sprintf("+%d(%s)", off, arg), int64(p.index)*a.Type.Size()
				cur = a.Type
			default:
				return "", fmt.Errorf("%v: [%d] on %s, which is no array", e, p.index, cur)
			}
			last = nil
			continue
		}
		if ptr, ok := t.(*dwarf.PtrType); ok {
			if !p.deref {
				return "", fmt.Errorf("%v: %s is reached through a pointer, write ->%s", e, p.name, p.name)
			}
			arg, off = fmt.Sprintf("+%d(%s)", off, arg), 0
			t = resolveTypedef(ptr.Type)
		} else if p.deref {
			return "", fmt.Errorf("%v: %s belongs to a struct by value, write .%s", e, p.name, p.name)
		}
		s, ok := t.(*dwarf.StructType)
		if !ok {
			return "", fmt.Errorf("%v: %s is a member of %s, which is no struct", e, p.name, t)
		}
		if s.Incomplete {
			if full, err := findStruct(d, s.Kind, s.StructName); err == nil && full != nil {
				s = full
			} else {
				return "", fmt.Errorf("%v: %s does not see inside struct %s; name an object that does", e, e.Object, s.StructName)
			}
		}
		f, at := findMember(s, p.name)
		if f == nil {
			return "", &NoMemberError{Expr: e, Struct: structName(s), Member: p.name}
		}
		off += at
		cur, last = f.Type, f
	}
	if typ == "" {
		if typ, err = typeOf(cur, last); err != nil {
			return "", fmt.Errorf("%v: %w", e, err)
		}
	}
	// A pointer to characters is followed once more to get at them.
	if _, ptr := resolveTypedef(cur).(*dwarf.PtrType); ptr && (typ == "string" || typ == "ustring") {
		return fmt.Sprintf("+0(+%d(%s)):%s", off, arg, typ), nil
	}
	return fmt.Sprintf("+%d(%s):%s", off, arg, typ), nil
}

func structName(s *dwarf.StructType) string {
	if s.StructName == "" {
		return "an unnamed " + s.Kind
	}
	return s.Kind + " " + s.StructName
}

func resolveTypedef(t dwarf.Type) dwarf.Type {
	for i := 0; i < 64; i++ {
		switch x := t.(type) {
		case *dwarf.TypedefType:
			t = x.Type
		case *dwarf.QualType:
			t = x.Type
		default:
			return t
		}
	}
	return t
}

// findStruct finds a complete definition by name; nil when there is none. An
// empty kind takes typedefs too.
func findStruct(d *dwarf.Data, kind, name string) (*dwarf.StructType, error) {
	r := d.Reader()
	for {
		ent, err := r.Next()
		if err != nil {
			return nil, err
		}
		if ent == nil {
			return nil, nil
		}
		switch ent.Tag {
		case dwarf.TagCompileUnit:
			continue
		case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagTypedef:
			n, _ := ent.Val(dwarf.AttrName).(string)
			decl, _ := ent.Val(dwarf.AttrDeclaration).(bool)
			ok := n == name && !decl
			switch kind {
			case "struct":
				ok = ok && ent.Tag == dwarf.TagStructType
			case "union":
				ok = ok && ent.Tag == dwarf.TagUnionType
			}
			if ok {
				t, err := d.Type(ent.Offset)
				if err != nil {
					return nil, err
				}
				if s, is := resolveTypedef(t).(*dwarf.StructType); is && !s.Incomplete {
					return s, nil
				}
			}
		}
		r.SkipChildren()
	}
}

// findMember looks into unnamed structs and unions too.
func findMember(s *dwarf.StructType, name string) (*dwarf.StructField, int64) {
	for _, f := range s.Field {
		if f.Name == name {
			return f, f.ByteOffset
		}
	}
	for _, f := range s.Field {
		if f.Name != "" {
			continue
		}
		if in, ok := resolveTypedef(f.Type).(*dwarf.StructType); ok {
			if m, at := findMember(in, name); m != nil {
				return m, f.ByteOffset + at
			}
		}
	}
	return nil, 0
}

// typeOf picks the tracing type for a member.
func typeOf(t dwarf.Type, f *dwarf.StructField) (string, error) {
	t = resolveTypedef(t)
	if f != nil && f.BitSize > 0 {
		size := t.Size() * 8
		// DataBitOffset counts from the start of the struct, the container's from
		// ByteOffset; the tracing language wants the offset within the container.
		at := f.DataBitOffset - f.ByteOffset*8
		if f.DataBitOffset == 0 && f.ByteSize > 0 {
			at = f.ByteSize*8 - f.BitSize - f.BitOffset
		}
		return fmt.Sprintf("b%d@%d/%d", f.BitSize, at, size), nil
	}
	bits := t.Size() * 8
	switch x := t.(type) {
	case *dwarf.PtrType:
		if c := resolveTypedef(x.Type); isChar(c) {
			return "string", nil
		}
		return fmt.Sprintf("x%d", bits), nil
	case *dwarf.ArrayType:
		if isChar(resolveTypedef(x.Type)) {
			return "string", nil
		}
		return "", errors.New("an array has to be indexed, or given a type such as u32[4]")
	case *dwarf.IntType, *dwarf.CharType:
		if bits > 64 {
			return "", fmt.Errorf("%d bits are more than a tracing type holds", bits)
		}
		return fmt.Sprintf("s%d", bits), nil
	case *dwarf.UintType, *dwarf.UcharType, *dwarf.BoolType:
		if bits > 64 {
			return "", fmt.Errorf("%d bits are more than a tracing type holds", bits)
		}
		return fmt.Sprintf("u%d", bits), nil
	case *dwarf.EnumType:
		return fmt.Sprintf("u%d", bits), nil
	case *dwarf.StructType:
		return "", fmt.Errorf("it is a whole %s; name a member of it", structName(x))
	}
	return "", fmt.Errorf("%s has no tracing type", t)
}

// isChar tells text from bytes: the kernel's char is unsigned for the compiler,
// and so is u8, so only the name differs.
func isChar(t dwarf.Type) bool {
	switch t.(type) {
	case *dwarf.CharType, *dwarf.UcharType, *dwarf.IntType, *dwarf.UintType:
		return t.Common().Name == "char"
	}
	return false
}

func isConfigFault(err error) bool {
	var m *kernelconfigs.MissingError
	return errors.As(err, &m)
}
