// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"patchcheck/internal/runfolder"
)

// There is no standard for JUnit's XML. This is the shape that Jenkins' own
// schema (junit-10.xsd of its xunit plugin) allows, which GitLab and the
// converters for GitHub read, too: testsuites, testsuite with properties,
// testcase with at most one of failure, error and skipped, then system-out.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Time     string       `xml:"time,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string           `xml:"name,attr"`
		Tests      int              `xml:"tests,attr"`
		Failures   int              `xml:"failures,attr"`
		Errors     int              `xml:"errors,attr"`
		Skipped    int              `xml:"skipped,attr"`
		Time       string           `xml:"time,attr"`
		Timestamp  string           `xml:"timestamp,attr"`
		Properties *junitProperties `xml:"properties"`
		Cases      []junitCase      `xml:"testcase"`

		elapsed time.Duration
	}
	junitProperties struct {
		List []junitProperty `xml:"property"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitResult `xml:"failure"`
		Error   *junitResult `xml:"error"`
		Skipped *junitResult `xml:"skipped"`
		Out     *junitOut    `xml:"system-out"`
	}
	junitOut struct {
		Text string `xml:",innerxml"`
	}
	junitResult struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",innerxml"`
	}
)

// junit writes the run as JUnit XML.
func junit(w io.Writer, r *runfolder.Run) error {
	all := junitSuites{Name: "patchcheck: " + label(r.Series.Title)}
	at := map[string]int{}
	var total time.Duration
	for _, c := range outline(r) {
		i, ok := at[c.path[0]]
		if !ok {
			i = len(all.Suites)
			at[c.path[0]] = i
			s := junitSuite{Name: junitText(c.path[0]), Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05Z")}
			if i == 0 {
				s.Properties = properties(r)
			}
			all.Suites = append(all.Suites, s)
		}
		s := &all.Suites[i]
		// The class carries plan and suite, so that a consumer that folds
		// suites away keeps cells of different plans and kernels apart.
		class := []string{label(r.Plan.Name)}
		class = append(class, c.path[:len(c.path)-1]...)
		for k := range class {
			class[k] = strings.ReplaceAll(class[k], ".", "_") // a dot parts packages
		}
		j := junitCase{Class: junitText(strings.Join(class, ".")), Name: junitText(c.name()), Time: seconds(c.elapsed)}
		if len(c.out) > 0 {
			j.Out = &junitOut{junitBody(c.out)}
		}
		res := &junitResult{Type: c.kind, Message: junitText(c.reason), Text: junitBody(c.detail)}
		switch c.outcome {
		case outcomeFail:
			j.Failure = res
			s.Failures++
			all.Failures++
		case outcomeError:
			j.Error = res
			s.Errors++
			all.Errors++
		case outcomeSkip:
			if res.Type != "" && res.Message != "" {
				res.Message = res.Type + ": " + res.Message
			}
			j.Skipped = res
			s.Skipped++
		}
		s.Tests++
		all.Tests++
		if c.path[0] != "run" { // the verdict's time is that of all others
			s.elapsed += c.elapsed
			total += c.elapsed
		} else {
			j.Time = seconds(0)
		}
		s.Cases = append(s.Cases, j)
	}
	for i := range all.Suites {
		all.Suites[i].Time = seconds(all.Suites[i].elapsed)
	}
	all.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(0, d.Seconds())) }

// junitText keeps text of a mail or a guest from asking for files: Jenkins and
// GitLab collect the files that "[[ATTACHMENT|path]]" names. What XML cannot
// hold is replaced when it is encoded.
func junitText(s string) string { return strings.ReplaceAll(s, "[[ATTACHMENT", "[ [ATTACHMENT") }

// facts are what one must know of a run to compare its figures, by name.
func facts(r *runfolder.Run) (out []junitProperty) {
	add := func(name, value string) {
		if value = line(value); value != "" {
			out = append(out, junitProperty{name, value})
		}
	}
	add("run", r.ID)
	add("patchcheck", r.Tool)
	add("plan", r.Plan.Name)
	add("plan-id", r.PlanID)
	add("series", r.Series.Title)
	add("series-id", r.Series.ID)
	if r.Series.Version > 0 {
		add("series-version", fmt.Sprint(r.Series.Version))
	}
	add("tree", r.Tree.Spec)
	add("tree-version", r.Tree.Version)
	add("tree-commit", r.Tree.Commit)
	add("tree-package", r.Tree.PackageVersion)
	add("accel", r.Accel.Name)
	add("os", r.Host.OS)
	add("cpu", r.Host.CPU)
	for _, k := range sortedKeys(r.Tools) {
		add("tool-"+line(k), r.Tools[k])
	}
	for _, k := range sortedKeys(r.Kernels) {
		add("kernel-"+line(k), r.Kernels[k].Key)
	}
	return out
}

func properties(r *runfolder.Run) *junitProperties {
	out := facts(r)
	for i := range out {
		out[i].Value = junitText(out[i].Value)
	}
	return &junitProperties{out}
}

// junitBody is text between tags. Line ends stay as they are, so that the file
// can be read without a program, too.
func junitBody(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		xml.EscapeText(&b, []byte(junitText(l))) // a Builder does not fail
	}
	return strings.NewReplacer("&#xA;", "\n", "&#x9;", "\t", "&#34;", `"`, "&#39;", "'").Replace(b.String())
}
