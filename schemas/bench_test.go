// SPDX-License-Identifier: Apache-2.0

package schemas_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchcheck/checks/stats"
	"patchcheck/internal/bench"
	"patchcheck/schemas"
)

func generateBench(t *testing.T) []byte {
	direction := obj("enum", []bench.Direction{bench.Lower, bench.Higher, bench.None})
	g := &generator{defs: map[string]*object{}, docs: map[string]string{}, read: map[string]bool{}, more: map[string]*object{
		"bench.Document.$schema":  obj("const", schemas.BenchID),
		"bench.Experiment.schema": obj("const", bench.Schema),
		"bench.Metric.better":     direction,
		"bench.Row.better":        direction,
		"bench.Row.outcome": obj("enum", []stats.Outcome{stats.NoDifference, stats.Improved, stats.Worse, stats.Differs, stats.Same,
			stats.TooFew, stats.NotUsable}),
		"bench.Row.cliff": obj("minimum", -1, "maximum", 1),
	}}
	root := g.def(t, reflect.TypeFor[bench.Document]())
	g.def(t, reflect.TypeFor[bench.Experiment]())
	defs := obj()
	for _, n := range g.done {
		defs.set(n, g.defs[n])
	}
	for k := range g.more {
		t.Errorf("no field is named %s", k)
	}
	b, err := json.Marshal(obj(
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$id", schemas.BenchID,
		"title", "patchcheck bench report --format json",
		"description", "What a measurement says, and the facts that its numbers need beside them. Durations are in nanoseconds, times in RFC 3339, latencies in the unit that the row names. Properties may be added within a version: readers must ignore those they do not know.",
		"$ref", "#/$defs/"+root,
		"$defs", defs,
	))
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

func TestBenchSchemaIsThatOfTheTypes(t *testing.T) {
	got := generateBench(t)
	if *update {
		if err := os.WriteFile("bench.schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, schemas.Bench) {
		t.Error("bench.schema.json is not what the Go types say: go test ./schemas -update writes it anew")
	}
	if bench.SchemaID != schemas.BenchID {
		t.Errorf("bench writes %s, the schema is %s", bench.SchemaID, schemas.BenchID)
	}
}

// What internal/bench writes, as its golden files show it, is what the schema
// describes, to the last property.
func TestBenchDocumentsAreValid(t *testing.T) {
	if *update {
		t.Skip("the schema of this binary is the old one")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Bench))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range doc.(map[string]any)["$defs"].(map[string]any) {
		d.(map[string]any)["additionalProperties"] = false
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemas.BenchID, doc); err != nil {
		t.Fatal(err)
	}
	report, err := c.Compile(schemas.BenchID)
	if err != nil {
		t.Fatal(err)
	}
	record, err := c.Compile(schemas.BenchID + "#/$defs/bench.Experiment")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("../internal/bench/testdata/*.json")
	if len(files) == 0 {
		t.Fatal("internal/bench has no golden files")
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(report, b); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if err := validate(report, bytes.Replace(b, []byte(`"better": "lower"`), []byte(`"better": "down"`), 1)); err == nil {
			t.Errorf("%s: a direction that is none was let pass", f)
		}
	}
	e, err := bench.New(t.TempDir(), bench.Design{}, []bench.Arm{{Name: "base"}, {Name: "patched"}}, []bench.Job{{Name: "j", Kind: "fio"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Save(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(e.Dir(), bench.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(record, b); err != nil {
		t.Errorf("a fresh record: %v", err)
	}
}
