// SPDX-License-Identifier: Apache-2.0

// Package scripts turns what the kernel tree's own scripts print into
// findings: checkpatch.pl, get_maintainer.pl and kernel-doc. It also reads the
// data that they read, MAINTAINERS and .mailmap, and judges the license lines
// of new files by the rules of scripts/spdxcheck.py.
//
// The package is pure: it runs nothing and reads no files. Whoever runs the
// scripts hands in their output, and learns here how to call them
// (CheckpatchArgs, MaintainerArgs) and what to give them (NewInput).
//
// checkpatch is right about many things and noisy about more. Three filters
// stand between it and a person: only lines that the series itself writes
// count; what our own rules say with more knowledge, and what checkpatch cannot
// know without a repository, is left to them; and types that patches of good
// maintainers often break are kept for --strict, with a reason each (see
// CheckpatchPolicy).
package scripts

import (
	"strings"

	"patchcheck/checks"
)

const (
	srcCheckpatch = "Documentation/dev-tools/checkpatch.rst"
	srcRecipients = "Documentation/process/submitting-patches.rst, \"Select the recipients for your patch\""
	srcLicense    = "Documentation/process/license-rules.rst"
	srcMaintain   = "MAINTAINERS, \"How to submit patches\" and its list of fields"
	srcChecklist  = "Documentation/process/submit-checklist.rst"
)

// The findings of this package but those of checkpatch, which are named after
// its types, and of kernel-doc, which are those of checks/warnings.
var (
	RuleRecipients = checks.Rule{
		ID: "maintainer.missing", Severity: checks.Warning,
		Title:  "people or lists that look after the touched files are not addressed",
		Source: srcRecipients,
		Fix:    "add them to To or Cc; b4 prep --auto-to-cc or git send-email --cc-cmd does it",
	}
	RuleStaleAddress = checks.Rule{
		ID: "maintainer.stale-address", Severity: checks.Note,
		Title:  "an address that its owner has replaced",
		Source: ".mailmap of the tree, gitmailmap(5)",
		Fix:    "use the address that .mailmap gives",
	}
	RuleUncovered = checks.Rule{
		ID: "maintainer.uncovered", Severity: checks.Note,
		Title:  "a new file that no entry of MAINTAINERS covers",
		Source: srcMaintain,
		Fix:    "add an F: line to the entry that the file belongs to",
	}
	RuleStalePath = checks.Rule{
		ID: "maintainer.stale-path", Severity: checks.Warning,
		Title:  "MAINTAINERS names a file that the series moves or removes",
		Source: srcMaintain,
		Fix:    "change the F: line in the same patch",
	}
	RuleSPDXMissing = checks.Rule{
		ID: "spdx.missing", Severity: checks.Warning,
		Title:  "a new file without SPDX-License-Identifier",
		Source: srcLicense,
		Fix:    "write it as the first line, or the second below #!",
	}
	RuleSPDXStyle = checks.Rule{
		ID: "spdx.style", Severity: checks.Warning,
		Title:  "the SPDX line has another form than its kind of file wants",
		Source: srcLicense + ", \"License identifier syntax\"",
		Fix:    "C source //, headers and assembler /* */, scripts #, .rst ..",
	}
	RuleSPDXUnknown = checks.Rule{
		ID: "spdx.unknown", Severity: checks.Warning,
		Title:  "a license that the tree does not hold",
		Source: srcLicense + ", LICENSES/",
		Fix:    "use an identifier of LICENSES/preferred",
	}
	RuleSPDXUAPI = checks.Rule{
		ID: "spdx.uapi", Severity: checks.Warning,
		Title:  "a header for user space without the syscall exception",
		Source: srcLicense + ", Linux-syscall-note",
		Fix:    "write \"GPL-2.0 WITH Linux-syscall-note\", or the same with another license",
	}
	RuleTargets = checks.Rule{
		ID: "make.target", Severity: checks.Note,
		Title:  "a target of make that checks the touched files and was not run",
		Source: srcChecklist,
		Fix:    "run it in your own tree",
	}
	RuleInfra = checks.Rule{
		ID: "script.infra", Severity: checks.Error,
		Title:  "a script of the tree does not work here",
		Source: "the script's own words",
		Fix:    "mend what it complains about; until then nothing is known of what it checks",
	}
)

// Rules lists every rule of this package with an id of its own.
func Rules() []checks.Rule {
	return []checks.Rule{RuleRecipients, RuleStaleAddress, RuleUncovered, RuleStalePath, RuleSPDXMissing, RuleSPDXStyle, RuleSPDXUnknown, RuleSPDXUAPI, RuleTargets, RuleInfra}
}

// Broken makes the finding of a script that broke: its name, what happened and
// the end of its stderr.
func Broken(script, what string, stderr []byte) checks.Finding {
	f := RuleInfra.New(checks.Where{}, "%s %s; what it would have said is not known", script, what)
	lines := strings.Split(strings.TrimRight(string(stderr), "\n"), "\n")
	for _, l := range lines[max(0, len(lines)-5):] {
		if l != "" {
			f.Evidence = append(f.Evidence, clip(l, 300))
		}
	}
	return f
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
