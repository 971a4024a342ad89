// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"patchcheck/checks"
	"patchcheck/patches"
)

type fixesTag struct {
	id, title string
	line      int
}
type commitRef struct {
	id, title string
	line      int
}

func fixesOf(p *patches.Patch) []fixesTag     { return nil }
func commitRefs(p *patches.Patch) []commitRef { return nil }

func check(s *patches.Series, f Facts, o Options) []checks.Finding { return f.Scripts }

// Rules describes every finding of Check.
var Rules []checks.Rule
