// SPDX-License-Identifier: Apache-2.0

// Package lint owns the mail-time rules: what a maintainer would send back
// about a series before running any of it. It looks at the decoded mails and
// at Facts handed in; it reads no files, runs no programs and knows no
// network. What the tree's own scripts say comes in as Facts.Scripts.
//
// The default profile is quiet: a rule that is often broken by patches that
// maintainers took is Strict, or gives one note for a whole patch.
package lint

import (
	"patchcheck/checks"
	"patchcheck/patches"
)

// Options choose which rules speak.
type Options struct {
	// Strict adds the rules that are off by default, and tightens limits.
	Strict bool
	// Profiles names the maintainer profiles to use whatever the paths; nil
	// chooses them by the touched paths, "none" uses none.
	Profiles []string
	// Mailless says that the series comes from a git range: what only exists
	// once mails are made (cover letter, base-commit, recipients) is not
	// missed.
	Mailless bool
}

// Check applies every rule to the series. Findings come in the order of the
// series: the whole first, then patch by patch.
func Check(s *patches.Series, f Facts, o Options) []checks.Finding {
	return check(s, f, o)
}
