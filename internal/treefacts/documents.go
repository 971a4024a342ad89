// SPDX-License-Identifier: Apache-2.0

package treefacts

import (
	"regexp"
	"slices"
	"strings"

	"patchcheck/checks/lint"
)

const assistantsDoc = "Documentation/process/coding-assistants.rst"

// trailerDocs are the documents that name trailers.
var trailerDocs = []string{"Documentation/process/submitting-patches.rst", "Documentation/process/5.Posting.rst", assistantsDoc, "Documentation/process/maintainer-tip.rst"}

var (
	reAssisted = regexp.MustCompile(`(?m)^[ \t]+Assisted-by:[ \t]*(\S.*?)[ \t]*$`)
	// A key counts when it is one of the -by family, or stands at the beginning
	// of a line that is set off as an example.
	reByKey      = regexp.MustCompile(`\b([A-Z][a-z]+(?:-[a-z]+)*-by):`)
	reExampleKey = regexp.MustCompile(`(?m)^[ \t]+([A-Z][a-z]+(?:-[a-z]+)*): \S`)
)

// plainKeys are the keys outside of the -by family that an example may show;
// other words before a colon in an example are mail headers or prose.
var plainKeys = []string{"Fixes", "Link", "Closes", "Cc", "Message-ID", "Base-commit", "Depends-on", "Suggested-by"}

// documents reads what the tree's documents prescribe. A document that cannot
// be read says nothing.
func (g *gatherer) documents() {
	if b, err := g.read(assistantsDoc); err == nil && b != nil {
		d := &lint.AssistedByDoc{Path: assistantsDoc}
		if m := reAssisted.FindSubmatch(b); m != nil {
			d.Format = string(m[1])
		}
		g.res.Facts.AssistedBy = d
	}
	var keys []string
	for _, n := range trailerDocs {
		b, err := g.read(n)
		if err != nil || b == nil {
			continue
		}
		for _, m := range reByKey.FindAllSubmatch(b, -1) {
			keys = append(keys, string(m[1]))
		}
		for _, m := range reExampleKey.FindAllSubmatch(b, -1) {
			if k := string(m[1]); slices.ContainsFunc(plainKeys, func(p string) bool { return strings.EqualFold(p, k) }) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	g.res.Facts.TrailerKeys = slices.Compact(keys)
}
