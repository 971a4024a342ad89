// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"maps"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/checks/warnings"
)

// KernelDoc compares what the tree's kernel-doc checker says of the files of
// one patch, as lines by file, before and after it. Only what is new counts.
func KernelDoc(patch int, before, after map[string][]string, moved warnings.LineMapper) []checks.Finding {
	read := func(m map[string][]string) []warnings.Diagnostic {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			all = append(all, m[name]...)
		}
		if len(all) == 0 {
			return nil
		}
		return warnings.ParseString(strings.Join(all, "\n") + "\n").Diagnostics
	}
	var out []checks.Finding
	for _, f := range warnings.Findings(warnings.Diff(read(before), read(after), warnings.Options{Map: moved})) {
		if f.ID == warnings.RuleFixed.ID || f.ID == warnings.RuleChanged.ID {
			continue
		}
		f.Where.Patch = patch
		out = append(out, f)
	}
	return out
}
