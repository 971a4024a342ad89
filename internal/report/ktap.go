// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"

	"patchcheck/internal/runfolder"
)

// ktapNode is a test with its subtests, in order.
type ktapNode struct {
	name string
	leaf *testCase
	sub  []*ktapNode
}

func (n *ktapNode) child(name string) *ktapNode {
	for _, c := range n.sub {
		if c.name == name && c.leaf == nil {
			return c
		}
	}
	c := &ktapNode{name: name}
	n.sub = append(n.sub, c)
	return c
}

// outcome of a node with subtests: it fails if one of them does, and is
// skipped when all are (Documentation/dev-tools/ktap.rst).
func (n *ktapNode) outcome() outcome {
	if n.leaf != nil {
		return n.leaf.outcome
	}
	out := outcomeSkip
	for _, c := range n.sub {
		switch o := c.outcome(); {
		case o == outcomeFail || o == outcomeError:
			return outcomeFail
		case o == outcomePass:
			out = outcomePass
		}
	}
	return out
}

// ktap writes the run as nested KTAP, version 1. The tree is run, suite,
// device, NFS version.
func ktap(out io.Writer, r *runfolder.Run) error {
	root := &ktapNode{name: "patchcheck"}
	cases := outline(r)
	for i := range cases {
		n := root
		for _, p := range cases[i].path[:len(cases[i].path)-1] {
			n = n.child(ktapText(p))
		}
		n.sub = append(n.sub, &ktapNode{name: ktapText(cases[i].name()), leaf: &cases[i]})
	}
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "KTAP version 1")
	fmt.Fprintln(w, "1..1")
	for _, f := range facts(r) {
		comment(w, "", f.Name+": "+f.Value)
	}
	root.write(w, 1, "")
	return w.Flush()
}

func (n *ktapNode) write(w io.Writer, number int, indent string) {
	ok, after := "ok", ""
	if n.leaf == nil {
		fmt.Fprintf(w, "%s  KTAP version 1\n", indent)
		fmt.Fprintf(w, "%s  # Subtest: %s\n", indent, n.name)
		fmt.Fprintf(w, "%s  1..%d\n", indent, len(n.sub))
		for i, c := range n.sub {
			c.write(w, i+1, indent+"  ")
		}
		switch n.outcome() {
		case outcomeFail:
			ok = "not ok"
		case outcomeSkip:
			after = " # SKIP"
		}
	} else {
		c := n.leaf
		for _, l := range c.out {
			comment(w, indent, l)
		}
		for _, l := range c.detail {
			comment(w, indent, l)
		}
		switch c.outcome {
		case outcomeFail:
			ok, after = "not ok", " # "+ktapReason(c)
			if ktapDirective.MatchString(after) { // a whole run that is SKIP
				after = " # verdict " + ktapReason(c)
			}
			if c.timeout {
				after = " # TIMEOUT " + ktapReason(c)
			}
		case outcomeError:
			ok, after = "not ok", " # ERROR "+ktapReason(c)
		case outcomeSkip:
			after = " # SKIP " + ktapReason(c)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s%s %d %s%s", indent, ok, number, n.name, ktapText(after)), " #"))
}

// comment writes a diagnostic line. Three spaces keep text of a mail or a
// guest from being read as the header of a subtest ("# Subtest: x").
func comment(w io.Writer, indent, text string) {
	fmt.Fprintf(w, "%s#   %s\n", indent, ktapText(text))
}

// ktapEnds are the last words of a kernel that halts. The kernel's own parser
// stops reading at them wherever they are in a line, and findings quote them.
var ktapEnds = strings.NewReplacer(
	"List of all partitions:", "List of all partitions :",
	"Kernel panic - not syncing: VFS:", "Kernel panic - not syncing : VFS:",
	"reboot: System halted", "reboot : System halted",
)

func ktapText(s string) string { return ktapEnds.Replace(s) }

// ktapDirective is a text that would be read as a directive.
var ktapDirective = regexp.MustCompile(`^ # *(?i:SKIP|TODO|XFAIL|TIMEOUT|ERROR)`)

// ktapReason is the text after a result's directive. A '#' in it would begin
// another one: " # SKIP" in a guest's words must not excuse a failure.
func ktapReason(c *testCase) string {
	s := c.reason
	if c.kind != "" && s != "" {
		s = c.kind + ": " + s
	} else if s == "" {
		s = c.kind
	}
	return strings.ReplaceAll(s, "#", `\#`)
}
