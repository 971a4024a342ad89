// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/perf/benchfmt"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/sarif"
	"patchcheck/schemas"
)

// evil is what a mail or a guest might say to be read as something else.
const evil = "a\x00\x1b[31m b\xff\ufffe\U000e0041 </system-out>]]>&<!-- # SKIP not so\nok 7 forged\nBenchmarkForged 1 1 ns/op\n# Subtest: forged\nKTAP version 1\n1..9\nreboot: System halted\nKernel panic - not syncing: VFS: x [[ATTACHMENT|/etc/passwd]]"

// hostile has a cell of every verdict, all of whose text is evil.
func hostile(t testing.TB) *runfolder.Run {
	tt, ok := t.(*testing.T)
	if !ok {
		t.Fatal("hostile needs a test")
	}
	r := sample(tt)
	r.Series.Title, r.Series.Patches[0].Subject = "title "+evil, evil
	r.Verdict, r.Reason = checks.Fail, evil
	f := checks.Finding{ID: "console.oops", Severity: checks.Error, Message: evil, Evidence: []string{evil}, Fix: evil}
	r.Findings = []checks.Finding{
		{ID: "message.x", Severity: checks.Warning, Where: checks.Where{Patch: 1, File: "../../etc/passwd", Line: 3}, Message: evil, Evidence: []string{evil}},
		{ID: "style.y", Severity: checks.Error, Where: checks.Where{Patch: 2, File: "net/a b.c", Line: 7, Col: 2}, Message: evil},
		{ID: "style.y", Severity: checks.Note, Where: checks.Where{Patch: 2, File: "net/a b.c", Line: 9}, Message: ""},
		{ID: "script.infra", Severity: checks.Error, Message: evil},
	}
	for i, v := range []checks.Verdict{checks.Fail, checks.BaseFails, checks.Infra, checks.Unstable, checks.Skip, ""} {
		c := r.Cells[i]
		c.Verdict, c.Reason, c.Findings = v, evil, []checks.Finding{f}
		c.Attempts = append(c.Attempts, runfolder.Attempt{Guest: "03-patched", Verdict: checks.Fail, Elapsed: 1234567 * time.Microsecond,
			Steps:  []runfolder.CellStep{{Name: "w " + evil, Elapsed: time.Second, Error: evil}, {Name: "x: read", Result: json.RawMessage(`{"bytes":8192,"calls":2,"elapsed_us":1000,"slowest_us":700,"median_us":500.5}`)}},
			Values: map[string]int64{evil: 7, "inline": 3}, Token: "done"})
	}
	r.Cells[0].Findings = append(r.Cells[0].Findings, checks.Finding{ID: "guest.hang", Severity: checks.Error, Message: "hung"})
	r.Cells = r.Cells[:len(r.Cells)-1] // one of the plan is not there
	r.Steps = []runfolder.Step{{Name: "build", Status: "ok", Elapsed: 3 * time.Second, Detail: evil}}
	return r
}

func render(t testing.TB, r *runfolder.Run, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, format); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(b.Bytes(), "\x00\x1b") {
		t.Errorf("%s: control characters got through", format)
	}
	return b.String()
}

var samples = map[string]func(*testing.T) *runfolder.Run{
	"pass": sample, "fail": failing, "hostile": func(t *testing.T) *runfolder.Run { return hostile(t) },
	"unfinished": func(t *testing.T) *runfolder.Run {
		r := sample(t)
		r.Verdict, r.Cells, r.Ended = "", r.Cells[:2], time.Time{}
		return r
	},
	"quarantine": func(t *testing.T) *runfolder.Run {
		r := failing(t)
		r.Verdict, r.Reason = checks.Pass, ""
		for _, c := range r.Cells {
			if c.Verdict == checks.Fail {
				c.Quarantine = &runfolder.Quarantine{Owner: "ann", Reason: "flaky since 7.2", Expires: "2027-01-31"}
			}
		}
		return r
	},
	"all skipped": func(t *testing.T) *runfolder.Run {
		r := sample(t)
		r.Verdict, r.Reason, r.Cells = checks.Skip, "nothing to do", nil
		return r
	},
	"base does not build": func(t *testing.T) *runfolder.Run {
		r := sample(t)
		r.Verdict, r.Reason, r.Cells, r.Builds = checks.BaseFails, "the base does not build", nil, []runfolder.Build{{Patch: 0}}
		return r
	},
}

// junitOf reads JUnit XML strictly, by the rules of the schema that Jenkins'
// xunit plugin holds against files: which elements and attributes there are,
// which are required, in which order. It gives the outcome of each case.
func junitOf(t *testing.T, doc string) map[string]outcome {
	t.Helper()
	type element struct {
		required, optional string
		children           string
		text               bool
	}
	result := element{"", "type message", "", true}
	schema := map[string]element{
		"testsuites": {"", "name time tests failures errors", "testsuite", false},
		"testsuite":  {"name tests failures errors", "time skipped timestamp hostname id package file log url group", "testsuite properties testcase system-out system-err", false},
		"properties": {"", "", "property", false}, "property": {"name value", "", "", false},
		"testcase": {"name", "time classname group", "skipped error failure system-out system-err", false},
		"failure":  result, "error": result, "skipped": result,
		"system-out": {"", "", "", true}, "system-err": {"", "", "", true},
	}
	secondsRE := regexp.MustCompile(`^\d+\.\d{3}$`)
	got := map[string]outcome{}
	sums := map[string]int{}
	want := map[string]int{}
	dec := xml.NewDecoder(strings.NewReader(doc))
	var stack []string
	var current string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, doc)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			name := e.Name.Local
			s, ok := schema[name]
			if !ok {
				t.Fatalf("no element is named %s", name)
			}
			if len(stack) == 0 {
				if name != "testsuites" {
					t.Errorf("the root is %s", name)
				}
			} else if !strings.Contains(" "+schema[stack[len(stack)-1]].children+" ", " "+name+" ") {
				t.Errorf("%s in %s", name, stack[len(stack)-1])
			}
			attrs := map[string]string{}
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
				if !strings.Contains(" "+s.required+" "+s.optional+" ", " "+a.Name.Local+" ") {
					t.Errorf("%s has no attribute %s", name, a.Name.Local)
				}
				switch a.Name.Local {
				case "time":
					if !secondsRE.MatchString(a.Value) {
						t.Errorf("time %q", a.Value)
					}
				case "timestamp":
					if _, err := time.Parse("2006-01-02T15:04:05Z", a.Value); err != nil {
						t.Error(err)
					}
				}
			}
			for _, a := range strings.Fields(s.required) {
				if _, ok := attrs[a]; !ok {
					t.Errorf("%s lacks %s", name, a)
				}
			}
			switch name {
			case "testsuites", "testsuite":
				for _, k := range []string{"tests", "failures", "errors", "skipped"} {
					n, _ := strconv.Atoi(attrs[k])
					if name == "testsuite" {
						want[k] += n
					} else if k != "skipped" {
						want["all "+k] = n
					}
				}
			case "testcase":
				current = attrs["classname"] + "\x00" + attrs["name"]
				if _, ok := got[current]; ok {
					t.Errorf("two cases are named %q", current)
				}
				got[current] = outcomePass
				sums["tests"]++
			case "failure", "error", "skipped":
				if got[current] != outcomePass {
					t.Errorf("%q has two outcomes", current)
				}
				got[current] = map[string]outcome{"failure": outcomeFail, "error": outcomeError, "skipped": outcomeSkip}[name]
				sums[map[string]string{"failure": "failures", "error": "errors", "skipped": "skipped"}[name]]++
			}
			stack = append(stack, name)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 && !schema[stack[len(stack)-1]].text && strings.TrimSpace(string(e)) != "" {
				t.Errorf("text in %s: %s", stack[len(stack)-1], e)
			}
			if strings.Contains(string(e), "[[ATTACHMENT") {
				t.Errorf("text asks for a file: %s", e)
			}
		case xml.Comment, xml.Directive:
			t.Errorf("unexpected %T", e)
		}
	}
	for _, k := range []string{"tests", "failures", "errors", "skipped"} {
		if sums[k] != want[k] || k != "skipped" && sums[k] != want["all "+k] {
			t.Errorf("%s: %d in suites, %d in all, counted %d", k, want[k], want["all "+k], sums[k])
		}
	}
	return got
}

func TestJUnit(t *testing.T) {
	for name, mk := range samples {
		t.Run(name, func(t *testing.T) {
			r := mk(t)
			got := junitOf(t, render(t, r, "junit"))
			bad := 0
			for _, o := range got {
				if o == outcomeFail || o == outcomeError {
					bad++
				}
			}
			if (bad == 0) != (r.Verdict == checks.Pass) {
				t.Errorf("%d cases are red, and the run is %q", bad, r.Verdict)
			}
			cells := 0
			for k := range got {
				if strings.Contains(k, " kernel.") {
					cells++
				}
			}
			if n := len(r.Plan.Cells()); cells != n {
				t.Errorf("%d cells, the plan has %d", cells, n)
			}
		})
	}
	got := junitOf(t, render(t, hostile(t), "junit"))
	for k, want := range map[string]outcome{"none\x00v3": outcomeFail, "none\x00v4_1": outcomeSkip, "intel-216\x00v3": outcomeError, "intel-216\x00v4_1": outcomeFail, "intel-101\x00v3": outcomeSkip, "intel-101\x00v4_1": outcomeError} {
		k = "svcrdma-inline.patched kernel." + strings.Replace(k, "v4_1", "v4.1", 1)
		if got[k] != want {
			t.Errorf("%q: %q, want %s", k, got[k], want)
		}
	}
	if got["svcrdma-inline.findings\x00message.x"] != outcomeSkip || got["svcrdma-inline.findings\x00style.y"] != outcomeFail || got["svcrdma-inline.findings\x00script.infra"] != outcomeError {
		t.Errorf("findings: %q", got)
	}
}

// ktapOf reads KTAP by the rules of Documentation/dev-tools/ktap.rst and gives
// each test's result line by its path.
func ktapOf(t *testing.T, doc string) map[string]string {
	t.Helper()
	got := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(doc, "\n"), "\n")
	result := regexp.MustCompile(`^(ok|not ok) (\d+) ([^#]*[^# ])( # .*)?$`)
	at := 0
	var level func(indent string, path string) (failed, all bool)
	level = func(indent, path string) (failed, skipped bool) {
		if lines[at] != indent+"KTAP version 1" {
			t.Fatalf("line %d: %q, want a version line", at+1, lines[at])
		}
		at++
		header := ""
		if strings.HasPrefix(lines[at], indent+"# Subtest: ") {
			header = strings.TrimPrefix(lines[at], indent+"# Subtest: ")
			at++
		}
		n, err := strconv.Atoi(strings.TrimPrefix(lines[at], indent+"1.."))
		if err != nil {
			t.Fatalf("line %d: %q, want a plan line", at+1, lines[at])
		}
		at++
		skipped = true
		for i := 1; i <= n; i++ {
			subFailed, subSkipped, sub := false, false, false
			subHeader := ""
			for at < len(lines) && strings.HasPrefix(lines[at], indent+"#   ") {
				at++
			}
			if at < len(lines) && strings.HasPrefix(lines[at], indent+"  KTAP") {
				sub = true
				subHeader = strings.TrimPrefix(lines[at+1], indent+"  # Subtest: ")
				subFailed, subSkipped = level(indent+"  ", path+"/"+subHeader)
			}
			for at < len(lines) && strings.HasPrefix(lines[at], indent+"#   ") {
				at++
			}
			if at >= len(lines) || !strings.HasPrefix(lines[at], indent) {
				t.Fatalf("test %d of %s is missing", i, path)
			}
			m := result.FindStringSubmatch(lines[at][len(indent):])
			if m == nil || m[2] != strconv.Itoa(i) || sub && m[3] != subHeader {
				t.Fatalf("line %d: %q is no result %d of %s", at+1, lines[at], i, path)
			}
			if strings.Count(m[4], "#") != strings.Count(m[4], `\#`)+len(regexp.MustCompile(`^ # `).FindString(m[4]))/3 {
				t.Errorf("a second directive: %q", lines[at])
			}
			isSkip := strings.HasPrefix(m[4], " # SKIP")
			if sub && (subFailed != (m[1] == "not ok") || subSkipped != isSkip) {
				t.Errorf("line %d: %q, but its subtests failed %v, are all skipped %v", at+1, lines[at], subFailed, subSkipped)
			}
			failed = failed || m[1] == "not ok"
			skipped = skipped && isSkip
			got[path+"/"+m[3]] = m[1] + m[4]
			at++
		}
		_ = header
		return failed, skipped
	}
	level("", "")
	if at != len(lines) {
		t.Errorf("line %d: %q is outside of the tests", at+1, lines[at])
	}
	return got
}

func TestKTAP(t *testing.T) {
	for name, mk := range samples {
		t.Run(name, func(t *testing.T) {
			r := mk(t)
			got := ktapOf(t, render(t, r, "ktap"))
			if all := got["/patchcheck"]; strings.HasPrefix(all, "ok") != (r.Verdict == checks.Pass) {
				t.Errorf("all: %q, the run is %q", all, r.Verdict)
			}
			if junit := junitOf(t, render(t, r, "junit")); len(junit) == 0 {
				t.Error("no cases")
			}
		})
	}
	got := ktapOf(t, render(t, hostile(t), "ktap"))
	for k, want := range map[string]string{"none/v3": "not ok # TIMEOUT FAIL", "none/v4.1": "ok # SKIP BASE-FAILS", "intel-216/v3": "not ok # ERROR INFRA", "intel-216/v4.1": "not ok # UNSTABLE", "intel-101/v3": "ok # SKIP SKIP", "intel-101/v4.1": "not ok # ERROR UNFINISHED", "alibaba-96/v3": "ok"} {
		if v := got["/patchcheck/patched kernel/"+k]; !strings.HasPrefix(v, want) {
			t.Errorf("%s: %q, want %s", k, v, want)
		}
	}
}

func TestSARIF(t *testing.T) {
	for name, mk := range samples {
		t.Run(name, func(t *testing.T) {
			r := mk(t)
			var log sarif.Log
			dec := json.NewDecoder(strings.NewReader(render(t, r, "sarif")))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&log); err != nil {
				t.Fatal(err)
			}
			run := log.Runs[0]
			prints := map[string]bool{}
			for _, res := range run.Results {
				if run.Tool.Driver.Rules[res.RuleIndex].ID != res.RuleID {
					t.Errorf("rule %d is not %s", res.RuleIndex, res.RuleID)
				}
				if res.Message.Text == "" || len(res.Locations) == 0 || res.Locations[0].Physical == nil {
					t.Errorf("no message or no place: %+v", res)
				}
				if p := res.Fingerprints["patchcheck/v1"]; p == "" || prints[p] {
					t.Errorf("fingerprint %q is not unique", p)
				} else {
					prints[p] = true
				}
				if strings.Contains(res.Locations[0].Physical.Artifact.URI, "..") {
					t.Errorf("a reference leads out of the tree: %+v", res.Locations[0])
				}
			}
			if ok := r.Verdict != "" && r.Verdict != checks.Infra; run.Invocations[0].OK != ok {
				t.Errorf("executionSuccessful is %v for %q", !ok, r.Verdict)
			}
		})
	}
	var b strings.Builder
	if err := SARIF(&b, hostile(t), func(id string) (checks.Rule, bool) {
		return checks.Rule{ID: id, Severity: checks.Error, Title: "title of " + id, Fix: "mend", Source: "a document"}, true
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"text": "title of style.y"`, `"justification": "the base kernel does it too"`, `"toolExecutionNotifications"`, `"uri": "net/a%20b.c"`, `"startColumn": 2`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %s", want)
		}
	}
	if doc := render(t, samples["quarantine"](t), "sarif"); !strings.Contains(doc, `"justification": "in quarantine until 2027-01-31 (ann): flaky since 7.2"`) {
		t.Error("a quarantined cell's finding is not suppressed")
	}
	if strings.Contains(b.String(), `"ruleId": "script.infra"`) {
		t.Error("a trouble of ours is a result")
	}
}

// benchOf reads benchmark lines as benchstat does.
func benchOf(t *testing.T, doc string) (results []*benchfmt.Result, units map[string]string) {
	t.Helper()
	units = map[string]string{}
	rd := benchfmt.NewReader(strings.NewReader(doc), "test")
	for rd.Scan() {
		switch rec := rd.Result().(type) {
		case *benchfmt.Result:
			results = append(results, rec.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v", rec)
		case *benchfmt.UnitMetadata:
			units[rec.OrigUnit] = rec.Key + "=" + rec.Value
		}
	}
	if err := rd.Err(); err != nil {
		t.Fatal(err)
	}
	return results, units
}

func TestBench(t *testing.T) {
	r := hostile(t)
	results, units := benchOf(t, render(t, r, "bench"))
	if units["inline"] != "assume=exact" {
		t.Errorf("units: %v", units)
	}
	cells, reads := 0, 0
	for _, res := range results {
		name := string(res.Name.Full())
		if strings.Contains(name, "Forged") {
			t.Errorf("forged: %s", name)
		}
		if res.GetConfig("plan") != "svcrdma-inline" || res.GetConfig("accel") != "tcg" || res.GetConfig("run") != "" {
			t.Errorf("configuration: %v", res.Config)
		}
		base, parts := res.Name.Parts()
		switch string(base) {
		case "Cell":
			cells++
			if p := string(parts[len(parts)-1]); !strings.HasPrefix(p, "/nfs=") {
				t.Errorf("%s: the last part is %s", name, p)
			}
		case "IO":
			reads++
			if v, ok := res.Value("sec/op"); !ok || v != 500e-6 {
				t.Errorf("%s: %v", name, res.Values)
			}
			if v, ok := res.Value("B/s"); !ok || v != 8.192e6 {
				t.Errorf("%s: %v", name, res.Values)
			}
			if res.Iters != 2 {
				t.Errorf("%s: %d calls", name, res.Iters)
			}
		}
	}
	attempts := 0
	for _, c := range r.Cells {
		attempts += len(c.Attempts)
	}
	if cells != attempts || reads != 6 {
		t.Errorf("%d of cells, %d of reads; want %d and 6", cells, reads, attempts)
	}
	// Nothing that was not measured in this run, and no invalid count.
	r = sample(t)
	r.Cells[0].Reused, r.Cells[1].Attempts[0].Invalid, r.Cells[2].Attempts[0].Token = "an earlier run", true, ""
	doc := render(t, r, "bench")
	results, _ = benchOf(t, doc)
	for _, res := range results {
		n := string(res.Name.Full())
		if strings.HasPrefix(n, "Cell/plan=svcrdma-inline/kernel=patched/device=none/nfs=3") || strings.Contains(n, "device=intel-216/nfs=3") {
			t.Errorf("not measured: %s", n)
		}
		if strings.Contains(n, "kernel=patched/device=none/nfs=4.1") {
			if _, ok := res.Value("inline"); ok {
				t.Errorf("an invalid count: %s", doc)
			}
		}
	}
}

// A patch that does not apply is not said to apply, whatever its class.
func TestParagraphOfConflict(t *testing.T) {
	r := sample(t)
	r.Verdict, r.Builds, r.Cells = checks.Fail, nil, nil
	for _, class := range []string{"conflict", "missing_file", "unsafe_path", "of the future"} {
		r.Apply = []runfolder.Apply{{Patch: 1, Class: "offset"}, {Patch: 2, Class: class}}
		for _, f := range []string{"text", "cover", "markdown", "patch"} {
			if text := render(t, r, f); strings.Contains(text, "applies to") || strings.Contains(text, "with offsets") {
				t.Errorf("%s, %s:\n%s", class, f, text)
			}
		}
		if text := Build(r).Paragraph(); !strings.Contains(text, "Patch 2 of 2 does not apply to linux 7.3.4") {
			t.Errorf("%s: %s", class, text)
		}
	}
}

func TestJSONIsValid(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Run))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemas.RunID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(schemas.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for name, mk := range samples {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(render(t, mk(t), "json")))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzFormats(f *testing.F) {
	f.Add(evil)
	f.Add("# SKIP x\r\n</failure>")
	f.Add("\xed\xa0\x80\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		r := &runfolder.Run{ID: "x", Verdict: checks.Fail, Reason: s, Series: runfolder.Series{Title: s, Patches: []runfolder.Patch{{Index: 1, Subject: s}}},
			Findings: []checks.Finding{{ID: s, Severity: checks.Error, Message: s, Evidence: []string{s}}},
			Apply:    []runfolder.Apply{{Patch: 1, Class: s, Text: s, Lines: []string{s}}},
			Cells:    []*runfolder.Cell{{ID: s, Verdict: checks.Verdict(s), Reason: s, Attempts: []runfolder.Attempt{{Token: "done", Values: map[string]int64{s: 1}}}}}}
		r.Cells[0].Spec.Kernel, r.Cells[0].Spec.Device.Name, r.Cells[0].Spec.NFS = s, s, s
		r.Plan.Name = s
		junitOf(t, render(t, r, "junit"))
		ktapOf(t, render(t, r, "ktap"))
		results, _ := benchOf(t, render(t, r, "bench"))
		if len(results) != 1 {
			t.Errorf("%d benchmark lines: %s", len(results), fmt.Sprint(results))
		}
		if !json.Valid([]byte(render(t, r, "sarif"))) {
			t.Error("not JSON")
		}
	})
}
