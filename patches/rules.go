// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"slices"

	"patchcheck/checks"
	"patchcheck/patches/mail"
)

const srcSubmitting = "Documentation/process/submitting-patches.rst"

// Rules describes every Problem that a Series can have, those of its mails
// included.
var Rules = slices.Concat([]checks.Rule{
	{ID: "series.missing-part", Severity: checks.Error, Title: "a part of the series is missing", Source: srcSubmitting, Fix: "get the missing mails, or post the series again whole"},
	{ID: "series.duplicate-part", Severity: checks.Error, Title: "a part of the series is there twice", Source: srcSubmitting, Fix: "give each part once"},
	{ID: "series.extra-part", Severity: checks.Warning, Title: "a part is numbered beyond the end of the series", Source: "git-format-patch(1)", Fix: "post a new version with the right numbers"},
	{ID: "series.total-mismatch", Severity: checks.Error, Title: "parts disagree about how many there are", Source: "git-format-patch(1)", Fix: "post a new version with the right numbers"},
	{ID: "series.total-unknown", Severity: checks.Warning, Title: "parts do not say how many there are", Source: "git-format-patch(1)", Fix: "number the patches n/m"},
	{ID: "series.version-mixed", Severity: checks.Warning, Title: "cover letter and patches carry different versions", Source: "git-format-patch(1) --reroll-count", Fix: "use git format-patch -vN, which marks every mail"},
	{ID: "series.unnumbered", Severity: checks.Warning, Title: "several patches without numbers", Source: "git-format-patch(1) --numbered", Fix: "use git format-patch --numbered"},
	{ID: "series.partial-reroll", Severity: checks.Warning, Title: "new version of some parts only", Source: srcSubmitting, Fix: "post the whole series as a new version"},
	{ID: "series.base-mixed", Severity: checks.Warning, Title: "more than one base-commit", Source: "git-format-patch(1) --base", Fix: "make the whole series from one base"},
	{ID: "series.several", Severity: checks.Note, Title: "the input holds more than one series", Source: "patchcheck", Fix: "choose one by its message id or version"},
	{ID: "series.reply-used", Severity: checks.Warning, Title: "the patch stands in a reply", Source: "git-am(1) --scissors", Fix: "post the patch in a mail of its own"},
	{ID: "series.nacked", Severity: checks.Warning, Title: "a reviewer rejects the patch", Source: "Documentation/process/management-style.rst", Fix: "answer the review first"},
	{ID: "series.reply-sender", Severity: checks.Note, Title: "a trailer in a reply names someone else than its sender", Source: srcSubmitting, Fix: "ask the person named"},
	{ID: "series.merge-left-out", Severity: checks.Warning, Title: "the range holds merge commits", Source: "git-format-patch(1)", Fix: "rebase: a mailed series has no merges"},
	{ID: "series.nameless", Severity: checks.Note, Title: "a diff without subject and author", Source: srcSubmitting, Fix: "commit it and use git format-patch"},
	{ID: "patch.damaged", Severity: checks.Error, Title: "the diff is damaged", Source: "git-apply(1)", Fix: "get the patch in its original form, or make it again with git format-patch"},
	{ID: "patch.no-files", Severity: checks.Error, Title: "the diff changes no file", Source: "git-apply(1)", Fix: "make the patch again with git format-patch"},
}, mail.Rules)
