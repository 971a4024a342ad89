// SPDX-License-Identifier: Apache-2.0

package schemas_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchcheck/checks"
	"patchcheck/internal/report"
	"patchcheck/internal/runfolder"
	"patchcheck/schemas"
)

var update = flag.Bool("update", false, "write the schemas from the Go types")

// object keeps the order in which keys were set.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) set(k string, v any) *object {
	if o.values == nil {
		o.values = map[string]any{}
	}
	if _, ok := o.values[k]; !ok {
		o.keys = append(o.keys, k)
	}
	o.values[k] = v
	return o
}

func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		kb, _ := json.Marshal(k)
		var vb bytes.Buffer
		enc := json.NewEncoder(&vb)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(o.values[k]); err != nil {
			return nil, err
		}
		b.Write(kb)
		b.WriteByte(':')
		b.Write(bytes.TrimSpace(vb.Bytes()))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func obj(kv ...any) *object {
	o := &object{}
	for i := 0; i < len(kv); i += 2 {
		o.set(kv[i].(string), kv[i+1])
	}
	return o
}

// generator makes a schema of Go types the way encoding/json writes them.
type generator struct {
	defs map[string]*object
	done []string
	docs map[string]string // "pkg.Type" and "pkg.Type.Field"
	read map[string]bool   // packages whose comments were read
	// more is what a type cannot say: keywords by "pkg.Type.json_name".
	more map[string]*object
}

func (g *generator) typ(t *testing.T, ty reflect.Type) *object {
	switch ty {
	case reflect.TypeFor[time.Time]():
		return obj("type", "string", "format", "date-time")
	case reflect.TypeFor[json.RawMessage]():
		return obj()
	case reflect.TypeFor[checks.Verdict]():
		return obj("enum", []checks.Verdict{checks.Pass, checks.Fail, checks.BaseFails, checks.Infra, checks.Unstable, checks.Skip, ""})
	case reflect.TypeFor[checks.Severity]():
		return obj("enum", []checks.Severity{checks.Error, checks.Warning, checks.Note})
	}
	switch ty.Kind() {
	case reflect.String:
		return obj("type", "string")
	case reflect.Bool:
		return obj("type", "boolean")
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint64, reflect.Uint32, reflect.Uint:
		return obj("type", "integer")
	case reflect.Float64:
		return obj("type", "number")
	case reflect.Pointer:
		return g.typ(t, ty.Elem())
	case reflect.Slice:
		return obj("type", "array", "items", g.typ(t, ty.Elem()))
	case reflect.Array:
		items := g.typ(t, ty.Elem())
		if ty.Elem().Kind() == reflect.Slice { // nil is written as null
			items = obj("type", []any{"array", "null"}, "items", items.values["items"])
		}
		return obj("type", "array", "items", items, "minItems", ty.Len(), "maxItems", ty.Len())
	case reflect.Map:
		return obj("type", "object", "additionalProperties", g.typ(t, ty.Elem()))
	case reflect.Struct:
		return obj("$ref", "#/$defs/"+g.def(t, ty))
	}
	t.Fatalf("no schema for %v", ty)
	return nil
}

func (g *generator) def(t *testing.T, ty reflect.Type) string {
	if ty.Name() == "" {
		t.Fatalf("a struct without a name: %v", ty)
	}
	name := ty.String()
	if g.defs[name] != nil {
		return name
	}
	g.comments(t, ty.PkgPath())
	o := obj()
	g.defs[name] = o
	g.done = append(g.done, name)
	if d := g.docs[name]; d != "" {
		o.set("description", d)
	}
	o.set("type", "object")
	props := obj()
	required := []string{}
	// Fields of embedded structs are written as the struct's own.
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(ty) {
		if !f.Anonymous && (len(f.Index) == 1 || f.Tag.Get("json") != "") {
			fields = append(fields, f)
		}
	}
	for _, f := range fields {
		tag := f.Tag.Get("json")
		key, opts, _ := strings.Cut(tag, ",")
		if key == "-" || !f.IsExported() {
			continue
		}
		if key == "" {
			key = f.Name
		}
		optional := strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
		s := g.typ(t, f.Type)
		if k := f.Type.Kind(); !optional && ty != reflect.TypeFor[report.Document]() && (k == reflect.Slice || k == reflect.Map || k == reflect.Pointer) && f.Type != reflect.TypeFor[json.RawMessage]() {
			if s.values["type"] != nil { // nil is written as null
				s.set("type", []any{s.values["type"], "null"})
			} else {
				s = obj("anyOf", []any{s, obj("type", "null")})
			}
		}
		owner := name
		for e, i := ty, 0; i < len(f.Index)-1; i++ {
			if e = e.Field(f.Index[i]).Type; e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			g.comments(t, e.PkgPath())
			owner = e.String()
		}
		if d := g.docs[owner+"."+f.Name]; d != "" {
			if s.values["$ref"] != nil {
				s = obj("description", d, "$ref", s.values["$ref"])
			} else {
				s.set("description", d)
			}
		}
		if m := g.more[name+"."+key]; m != nil {
			for _, k := range m.keys {
				s.set(k, m.values[k])
			}
			delete(g.more, name+"."+key)
		}
		props.set(key, s)
		if !optional {
			required = append(required, key)
		}
	}
	o.set("properties", props)
	if len(required) > 0 {
		o.set("required", required)
	}
	return name
}

// comments reads the comments of a package's types and their fields.
func (g *generator) comments(t *testing.T, pkg string) {
	if g.read[pkg] {
		return
	}
	g.read[pkg] = true
	dir := filepath.Join("..", filepath.FromSlash(strings.TrimPrefix(pkg, "patchcheck/")))
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, n, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			gd, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gd.Specs {
				ts, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				name := f.Name.Name + "." + ts.Name.Name
				g.docs[name] = text(ts.Doc, ts.Comment, gd.Doc)
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, fl := range st.Fields.List {
					for _, id := range fl.Names {
						g.docs[name+"."+id.Name] = text(fl.Doc, fl.Comment)
					}
				}
			}
		}
	}
}

func text(groups ...*ast.CommentGroup) string {
	for _, c := range groups {
		if s := strings.Join(strings.Fields(c.Text()), " "); s != "" {
			return s
		}
	}
	return ""
}

func generate(t *testing.T) []byte {
	g := &generator{defs: map[string]*object{}, docs: map[string]string{}, read: map[string]bool{}, more: map[string]*object{
		"report.Document.$schema":      obj("const", schemas.RunID),
		"report.Document.schema":       obj("const", runfolder.Schema),
		"runfolder.Run.schema":         obj("const", runfolder.Schema),
		"runfolder.Run.id":             obj("pattern", "^[0-9]{8}-[0-9]{6}-[a-z0-9-]+(\\.[0-9]+)?$"),
		"runfolder.Step.status":        obj("enum", []string{"ok", "failed", "reused", "skipped", ""}),
		"runfolder.Cell.id":            obj("pattern", "^[^/]+/[^/]+/v[^/]+$"),
		"runfolder.Apply.patch":        obj("minimum", 1),
		"runfolder.Build.patch":        obj("minimum", 0),
		"runfolder.Attempt.elapsed_ns": obj("minimum", 0),
		"checks.Finding.id":            obj("minLength", 1),
	}}
	root := g.def(t, reflect.TypeFor[report.Document]())
	defs := obj()
	for _, n := range g.done {
		defs.set(n, g.defs[n])
	}
	for k := range g.more {
		t.Errorf("no field is named %s", k)
	}
	doc := obj(
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$id", schemas.RunID,
		"title", "patchcheck report --format json",
		"description", "What one run of patchcheck recorded, and the report made of it. Durations are in nanoseconds, times in RFC 3339. Properties may be added within a version: readers must ignore those they do not know.",
		"$ref", "#/$defs/"+root,
		"$defs", defs,
	)
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", " "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func TestSchemaIsThatOfTheTypes(t *testing.T) {
	got := generate(t)
	if *update {
		if err := os.WriteFile("run.schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, schemas.Run) {
		t.Error("run.schema.json is not what the Go types say: go test ./schemas -update writes it anew.\nA field that was removed or whose meaning changed needs a new runfolder.Schema (docs/formats.md).")
	}
	if want := fmt.Sprintf("urn:patchcheck:run:%d", runfolder.Schema); schemas.RunID != want {
		t.Errorf("RunID is %s, want %s", schemas.RunID, want)
	}
}

// compile makes a validator of a part of the schema. strict also refuses
// properties that the schema does not name: what we write, it must describe.
func compile(t *testing.T, def string, strict bool) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Run))
	if err != nil {
		t.Fatal(err)
	}
	if strict {
		for _, d := range doc.(map[string]any)["$defs"].(map[string]any) {
			d.(map[string]any)["additionalProperties"] = false
		}
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemas.RunID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemas.RunID + def)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, b []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// runFolders are real run folders: that in testdata, and the one that
// PATCHCHECK_RUN names.
func runFolders(t *testing.T) []string {
	dirs, err := filepath.Glob(filepath.Join("testdata", "*", "run.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no run folder in testdata: %v", err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	if d := os.Getenv("PATCHCHECK_RUN"); d != "" {
		dirs = append(dirs, d)
	}
	return dirs
}

func TestRealRunsAreValid(t *testing.T) {
	all, run, cell := compile(t, "", true), compile(t, "#/$defs/runfolder.Run", true), compile(t, "#/$defs/runfolder.Cell", true)
	for _, dir := range runFolders(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "run.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(run, b); err != nil {
				t.Errorf("run.json: %v", err)
			}
			cells, _ := filepath.Glob(filepath.Join(dir, "cells", "*.json"))
			for _, n := range cells {
				b, err := os.ReadFile(n)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(cell, b); err != nil {
					t.Errorf("%s: %v", n, err)
				}
			}
			r, err := runfolder.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			var doc bytes.Buffer
			if err := report.Write(&doc, r, "json"); err != nil {
				t.Fatal(err)
			}
			if err := validate(all, doc.Bytes()); err != nil {
				t.Errorf("the report: %v", err)
			}
		})
	}
}

// The schema refuses what is broken, and lets pass what a later version adds.
func TestBrokenIsRefused(t *testing.T) {
	var r *runfolder.Run
	for _, dir := range runFolders(t) {
		x, err := runfolder.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Cells) > 0 {
			r = x
		}
	}
	var doc bytes.Buffer
	if err := report.Write(&doc, r, "json"); err != nil {
		t.Fatal(err)
	}
	s := compile(t, "", false)
	run := func(d map[string]any) map[string]any { return d["run"].(map[string]any) }
	cell := func(d map[string]any) map[string]any { return d["cells"].([]any)[0].(map[string]any) }
	for name, c := range map[string]struct {
		change func(d map[string]any)
		ok     bool
	}{
		"as it is":                 {func(d map[string]any) {}, true},
		"a property of the future": {func(d map[string]any) { run(d)["mood"] = "good"; cell(d)["mood"] = 1 }, true},
		"another version":          {func(d map[string]any) { d["schema"] = 2 }, false},
		"another schema":           {func(d map[string]any) { d["$schema"] = "urn:patchcheck:run:2" }, false},
		"no version":               {func(d map[string]any) { delete(d, "schema") }, false},
		"no verdict":               {func(d map[string]any) { delete(run(d), "verdict") }, false},
		"an unknown verdict":       {func(d map[string]any) { cell(d)["verdict"] = "GOOD" }, false},
		"a lower-case verdict":     {func(d map[string]any) { run(d)["verdict"] = "pass" }, false},
		"a time that is none":      {func(d map[string]any) { run(d)["started"] = "yesterday" }, false},
		"a count as text": {func(d map[string]any) {
			a := cell(d)["attempts"].([]any)
			a[len(a)-1].(map[string]any)["values"] = map[string]any{"inline": "3"}
		}, false},
		"cells that are no list":    {func(d map[string]any) { d["cells"] = map[string]any{} }, false},
		"a cell without id":         {func(d map[string]any) { delete(cell(d), "id") }, false},
		"an id that is a path":      {func(d map[string]any) { run(d)["id"] = "../x" }, false},
		"a negative patch":          {func(d map[string]any) { run(d)["builds"].([]any)[0].(map[string]any)["patch"] = -1 }, false},
		"a duration with fractions": {func(d map[string]any) { run(d)["steps"].([]any)[0].(map[string]any)["elapsed_ns"] = 1.5 }, false},
		"findings without severity": {func(d map[string]any) {
			run(d)["findings"] = []any{map[string]any{"id": "x", "message": "y", "where": map[string]any{}}}
		}, false},
	} {
		var d map[string]any
		if err := json.Unmarshal(doc.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		c.change(d)
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(s, b); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := validate(s, doc.Bytes()[:doc.Len()/2]); err == nil {
		t.Error("half a document is taken")
	}
}
