// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"patchcheck/checks"
)

const (
	srcSubmitting = "Documentation/process/submitting-patches.rst"
	srcCanonical  = srcSubmitting + ", \"The canonical patch format\""
	srcDescribe   = srcSubmitting + ", \"Describe your changes\""
	srcSignWork   = srcSubmitting + ", \"Sign your work\""
	srcTags       = srcSubmitting + ", \"Using Reported-by:, Tested-by:, ...\""
	srcStable     = "Documentation/process/stable-kernel-rules.rst"
	srcEmail      = "Documentation/process/email-clients.rst"
	srcAssistants = "Documentation/process/coding-assistants.rst"
	srcPosting    = "Documentation/process/5.Posting.rst"
	srcNetdev     = "Documentation/process/maintainer-netdev.rst"
	srcTip        = "Documentation/process/maintainer-tip.rst"
	srcNFSD       = "Documentation/filesystems/nfs/nfsd-maintainer-entry-profile.rst"
	srcDeprecated = "Documentation/process/deprecated.rst"
)

// Rules describes every finding of Check but those of Facts.Scripts and of
// Series.Problems (patches.Rules). A Strict rule speaks with Options.Strict,
// or when a maintainer profile that fits the touched paths turns it on.
var Rules = []checks.Rule{
	{ID: "series.cover-wanted", Severity: checks.Note, Title: "several patches and no cover letter", Source: srcPosting, Fix: "git format-patch --cover-letter: say what the series is for, once for all"},
	{ID: "series.cover-empty", Severity: checks.Error, Title: "the cover letter says nothing", Source: srcPosting, Fix: "write subject and text of the cover letter in place of git's template"},
	{ID: "series.changelog-missing", Severity: checks.Warning, Title: "a new version that does not say what changed", Source: srcSubmitting + ", \"Respond to review comments\"", Fix: "list the changes since the version before in the cover letter or below the ---"},
	{ID: "series.changelog-in-message", Severity: checks.Note, Strict: true, Title: "the list of changes between versions stands in the commit message", Source: srcSubmitting + ", \"Commentary\"", Fix: "move it below the --- line, so that it does not become part of the history"},
	{ID: "series.base-missing", Severity: checks.Note, Strict: true, Title: "no base-commit", Source: srcSubmitting + ", \"Providing base tree information\"", Fix: "git format-patch --base=auto"},
	{ID: "series.base-malformed", Severity: checks.Warning, Title: "base-commit is no full commit id", Source: "git-format-patch(1) --base", Fix: "git format-patch --base=auto writes the full id"},
	{ID: "series.base-unknown", Severity: checks.Warning, Title: "the base-commit is not in the tree", Source: srcSubmitting + ", \"Providing base tree information\"", Fix: "base the series on a public branch of the maintainer, or name the tree with --tree"},
	{ID: "series.base-inexact", Severity: checks.Note, Title: "the series was tried on another commit than its base-commit", Source: srcSubmitting + ", \"Providing base tree information\"", Fix: "give --base, or a tree that holds the commit"},
	{ID: "series.prerequisite", Severity: checks.Note, Title: "the series stands on other patches", Source: "git-format-patch(1) --base, b4 prep --edit-deps", Fix: "lint it with a tree that has them: --tree"},
	{ID: "series.prerequisite-unknown", Severity: checks.Warning, Title: "a prerequisite of the series is not in the tree", Source: "git-format-patch(1) --base, b4 prep --edit-deps", Fix: "apply the prerequisite first, or name the tree that has it"},
	{ID: "series.diffstat", Severity: checks.Warning, Title: "the diffstat is not that of the diff", Source: srcSubmitting + ", \"Commentary\"", Fix: "make the mails again with git format-patch: they were edited, or are of different versions"},
	{ID: "series.too-long", Severity: checks.Warning, Title: "more than 15 patches", Source: srcSubmitting + ", \"Separate your changes\"", Fix: "post a first part of about 15 patches and wait for it to be taken"},
	{ID: "series.mixed-subsystems", Severity: checks.Note, Strict: true, Title: "one patch changes several subsystems", Source: srcSubmitting + ", \"Separate your changes\"", Fix: "one patch for each subsystem, unless an interface changes on both sides at once"},
	{ID: "series.in-reply-to", Severity: checks.Note, Strict: true, Title: "the new version is sent as a reply to an older mail", Source: srcSubmitting + ", \"Explicit In-Reply-To headers\"", Fix: "start a new thread and link to the version before in the cover letter"},
	{ID: "series.reposted-early", Severity: checks.Note, Strict: true, Title: "posted again within a day", Source: srcNetdev, Fix: "let 24 hours pass, so that reviewers in every time zone have seen the version before"},
	{ID: "series.list-missing", Severity: checks.Warning, Strict: true, Title: "the subsystem's mailing list is not addressed", Source: srcSubmitting + ", \"Select the recipients for your patch\"", Fix: "add the list to Cc"},
	{ID: "series.one-side", Severity: checks.Warning, Strict: true, Title: "client and server changes in one series", Source: srcNFSD + ", \"Patch submission\"", Fix: "post the two sides as separate series, each to its own maintainers"},

	{ID: "subject.no-patch-tag", Severity: checks.Warning, Title: "the subject lacks [PATCH]", Source: srcSubmitting + ", \"Include PATCH in the subject\"", Fix: "let git format-patch write the subject; do not use --keep-subject"},
	{ID: "subject.no-prefix", Severity: checks.Warning, Title: "the subject names no subsystem", Source: srcCanonical, Fix: "begin with the subsystem as its history does (git log --oneline FILE): \"svcrdma: ...\""},
	{ID: "subject.prefix-unusual", Severity: checks.Note, Title: "the subject's prefix is not one that the history of the files uses", Source: srcCanonical, Fix: "use a prefix that git log --oneline FILE shows"},
	{ID: "subject.length", Severity: checks.Note, Title: "the subject is too long", Source: srcCanonical, Fix: "shorten it to 75 characters; the message has room for the rest"},
	{ID: "subject.period", Severity: checks.Note, Title: "the subject ends with a period", Source: srcPosting, Fix: "drop the period"},
	{ID: "subject.fixup", Severity: checks.Error, Title: "an unfinished commit", Source: "git-rebase(1) --autosquash", Fix: "squash it into the commit it belongs to before mailing"},
	{ID: "subject.duplicate", Severity: checks.Warning, Title: "several patches have the same subject", Source: srcCanonical, Fix: "say in each subject what that patch does"},
	{ID: "subject.imperative", Severity: checks.Note, Title: "the subject is not in the imperative", Source: srcDescribe, Fix: "write it as an order to the code: \"fix X\", not \"fixed X\" or \"fixes X\""},
	{ID: "subject.file-name", Severity: checks.Note, Strict: true, Title: "the subject's prefix is a file name", Source: srcTip + ", \"Patch subject\"", Fix: "name the subsystem and component instead"},
	{ID: "subject.tree-tag", Severity: checks.Note, Strict: true, Title: "the subject does not say which tree the patch is for", Source: srcNetdev, Fix: "git format-patch --subject-prefix='PATCH net-next' (or net, for fixes)"},
	{ID: "subject.capital", Severity: checks.Note, Strict: true, Title: "the summary does not start with a capital letter", Source: srcTip + ", \"Patch subject\"", Fix: "write the first word behind the prefix with a capital letter"},

	{ID: "message.empty", Severity: checks.Warning, Title: "empty commit message", Source: srcDescribe, Fix: "say what the problem is, what users see of it, and why this is the way to solve it"},
	{ID: "message.wrap", Severity: checks.Note, Title: "long lines in the commit message", Source: srcCanonical, Fix: "wrap the text at 75 columns; tags, quoted logs and links stay whole"},
	{ID: "message.subject-repeated", Severity: checks.Note, Title: "the message begins with its subject again", Source: srcCanonical, Fix: "drop the line: git takes the subject from the mail's header"},
	{ID: "message.first-person", Severity: checks.Note, Strict: true, Title: "the message speaks of itself", Source: srcDescribe, Fix: "write in the imperative: \"Make xyzzy do frotz\", not \"This patch makes\" or \"I changed\""},
	{ID: "message.commit-ref", Severity: checks.Note, Title: "a commit is named without its title or with a short id", Source: srcDescribe, Fix: "write: commit 0123456789ab (\"subsystem: title\")"},
	{ID: "message.commit-unknown", Severity: checks.Warning, Title: "a commit that the message names is not in the tree", Source: srcDescribe, Fix: "name the commit of a public tree"},
	{ID: "message.commit-title", Severity: checks.Warning, Title: "a commit's title is not the one the tree has", Source: srcDescribe, Fix: "copy id and title from git log"},
	{ID: "message.change-id", Severity: checks.Error, Title: "a Gerrit Change-Id is left in the message", Source: "scripts/checkpatch.pl GERRIT_CHANGE_ID", Fix: "remove the line"},
	{ID: "message.debris", Severity: checks.Warning, Title: "leftovers of a tool in the message", Source: "git-commit(1)", Fix: "remove the lines"},
	{ID: "message.tool-footer", Severity: checks.Warning, Title: "a coding assistant's footer in the message", Source: srcAssistants, Fix: "remove it and use Assisted-by: as the document says"},
	{ID: "message.link-form", Severity: checks.Note, Title: "a link under another tag than Link: or Closes:", Source: srcDescribe, Fix: "use Link:, or Closes: for a report that the patch settles"},
	{ID: "message.archive", Severity: checks.Note, Title: "a mail is linked in another archive than lore.kernel.org", Source: srcDescribe, Fix: "link https://lore.kernel.org/MESSAGE-ID, which holds when archives go away"},
	{ID: "message.attachment", Severity: checks.Warning, Title: "the patch is an attachment", Source: srcSubmitting + ", \"No MIME, no links, no compression, no attachments\"", Fix: "send it inline with git send-email"},
	{ID: "message.flowed", Severity: checks.Warning, Title: "the mail is format=flowed", Source: srcEmail, Fix: "switch format=flowed off in the mail program, or use git send-email"},

	{ID: "trailer.sob-missing", Severity: checks.Error, Title: "no Signed-off-by", Source: srcSignWork, Fix: "git commit --amend -s"},
	{ID: "trailer.author-sob", Severity: checks.Warning, Title: "the author has not signed off", Source: srcSignWork, Fix: "From: and Signed-off-by: of the author must agree in name or address"},
	{ID: "trailer.sender-sob", Severity: checks.Warning, Title: "the sender has not signed off", Source: srcSubmitting + ", \"When to use Acked-by:, Cc:, and Co-developed-by:\"", Fix: "whoever passes a patch on adds a Signed-off-by as the last one"},
	{ID: "trailer.fixes-sha-short", Severity: checks.Warning, Title: "the commit id in Fixes: is too short", Source: srcDescribe, Fix: "use 12 digits or more: git log -1 --abbrev=12 --format='Fixes: %h (\"%s\")'"},
	{ID: "trailer.fixes-format", Severity: checks.Warning, Title: "Fixes: is not of the usual form", Source: srcDescribe, Fix: "git log -1 --abbrev=12 --format='Fixes: %h (\"%s\")' COMMIT"},
	{ID: "trailer.fixes-wrapped", Severity: checks.Warning, Title: "Fixes: is broken over several lines", Source: srcDescribe, Fix: "keep the tag on one line, however long"},
	{ID: "trailer.fixes-unknown", Severity: checks.Warning, Title: "the commit in Fixes: is not in the tree", Source: srcTags, Fix: "name the commit as it is in the maintainer's or Linus' tree"},
	{ID: "trailer.fixes-subject-mismatch", Severity: checks.Warning, Title: "the title in Fixes: is not that of the commit", Source: srcDescribe, Fix: "copy id and title from git log"},
	{ID: "trailer.fixes-not-in-base", Severity: checks.Warning, Title: "the commit in Fixes: is not in the base", Source: srcTags, Fix: "base the series on a branch that has the commit, or fix the id"},
	{ID: "trailer.fixes-newer", Severity: checks.Warning, Title: "the commit in Fixes: is younger than the patch", Source: srcTags, Fix: "check the id"},
	{ID: "trailer.fixes-missing", Severity: checks.Note, Strict: true, Title: "a fix without Fixes: or a reason", Source: srcTags, Fix: "add Fixes:, or say in the message why there is none and whether LTS kernels need the patch"},
	{ID: "trailer.detached", Severity: checks.Warning, Title: "an empty line between the tags", Source: "git-interpret-trailers(1)", Fix: "keep all tags in one block at the end: git sees only the last one"},
	{ID: "trailer.stable-form", Severity: checks.Warning, Title: "the tag for the stable team is not of the usual form", Source: srcStable, Fix: "Cc: stable@vger.kernel.org # optional version"},
	{ID: "trailer.stable-unwanted", Severity: checks.Note, Strict: true, Title: "Cc: stable, which these maintainers add themselves", Source: srcNFSD + ", \"Patch preparation\"", Fix: "use Fixes:, or say in the message that LTS kernels need it"},
	{ID: "trailer.closes-missing", Severity: checks.Note, Title: "Reported-by without Closes: or Link:", Source: srcTags, Fix: "add Closes: with the address of the report, behind Reported-by"},
	{ID: "trailer.closes-alone", Severity: checks.Note, Title: "Closes: without Reported-by", Source: srcTags, Fix: "name who reported it, or use Link:"},
	{ID: "trailer.co-developed", Severity: checks.Warning, Title: "Co-developed-by without its Signed-off-by", Source: srcSubmitting + ", \"When to use Acked-by:, Cc:, and Co-developed-by:\"", Fix: "let the co-author's Signed-off-by follow directly"},
	{ID: "trailer.order", Severity: checks.Note, Strict: true, Title: "tags in another order than the maintainers'", Source: srcTip + ", \"Ordering of commit tags\"", Fix: "Fixes, Reported-by, Closes, Suggested-by, Co-developed-by, Signed-off-by, Tested-by, Reviewed-by, Acked-by, Cc, Link"},
	{ID: "trailer.combined", Severity: checks.Note, Strict: true, Title: "a combined tag", Source: srcTip + ", \"Ordering of commit tags\"", Fix: "write one tag for each role"},
	{ID: "trailer.assistant-sob", Severity: checks.Error, Title: "a program has signed off", Source: srcAssistants, Fix: "remove it: only a person can certify the origin; name the tool in Assisted-by:"},
	{ID: "trailer.assistant-form", Severity: checks.Note, Title: "a coding assistant is credited in another form than the document's", Source: srcAssistants, Fix: "use Assisted-by: as the document says"},
	{ID: "trailer.misspelt", Severity: checks.Warning, Title: "a misspelt tag", Source: srcTags, Fix: "tools find tags by their exact spelling"},
	{ID: "trailer.unknown", Severity: checks.Note, Strict: true, Title: "an unknown tag", Source: srcTags, Fix: "use the tags that the documents name"},
	{ID: "trailer.case", Severity: checks.Note, Title: "a tag in unusual capitals", Source: "scripts/checkpatch.pl BAD_SIGN_OFF", Fix: "capital first letter, the rest small: Signed-off-by"},
	{ID: "trailer.address", Severity: checks.Warning, Title: "a tag without a usable address", Source: srcSignWork, Fix: "Name <address>"},
	{ID: "trailer.duplicate", Severity: checks.Note, Title: "the same tag twice", Source: "scripts/checkpatch.pl BAD_SIGN_OFF", Fix: "remove one"},
	{ID: "trailer.from-replies", Severity: checks.Note, Title: "replies gave tags that the patch lacks", Source: srcTags, Fix: "add them when posting the next version, unless the patch changed much"},

	{ID: "claim.test-vague", Severity: checks.Note, Title: "a claim of testing that names nothing", Source: srcNFSD + ", \"Patch preparation\"", Fix: "say what ran, on which kernel and with which result (patchcheck report --cover writes it from a recorded run), or that it was not tested"},
	{ID: "claim.speed-unmeasured", Severity: checks.Note, Title: "a claim of speed without a number", Source: srcDescribe, Fix: "give numbers before and after, and how often they were measured"},
	{ID: "claim.numbers-bare", Severity: checks.Note, Title: "measurements that cannot be checked", Source: srcDescribe, Fix: "give the values before and after and the number of runs or an interval"},

	{ID: "diff.tabs-lost", Severity: checks.Error, Title: "tabs have become blanks", Source: srcEmail, Fix: "send with git send-email; do not paste a patch into a mail program or a terminal"},
	{ID: "diff.nbsp", Severity: checks.Error, Title: "non-breaking spaces in the code", Source: srcEmail, Fix: "send with git send-email; a web or HTML editor has replaced the blanks"},
	{ID: "diff.wrapped", Severity: checks.Error, Title: "the mail program has wrapped lines of the diff", Source: srcEmail, Fix: "send with git send-email, or switch line wrapping off"},
	{ID: "diff.unsafe-path", Severity: checks.Error, Title: "a path outside the tree", Source: "git-apply(1) --unsafe-paths", Fix: "do not apply this patch; make it again with git format-patch"},
	{ID: "diff.merge", Severity: checks.Error, Title: "a merge diff", Source: "git-diff(1), \"Combined diff format\"", Fix: "rebase, and mail plain commits"},
	{ID: "diff.symlink", Severity: checks.Warning, Title: "the patch makes a symbolic link", Source: "scripts/checkpatch.pl", Fix: "avoid links in the kernel tree"},
	{ID: "diff.mode", Severity: checks.Warning, Title: "a file's mode is wrong or changes", Source: "scripts/checkpatch.pl EXECUTE_PERMISSIONS", Fix: "git update-index --chmod=-x FILE, unless it is a script"},
	{ID: "diff.binary", Severity: checks.Note, Title: "a binary file", Source: srcSubmitting, Fix: "binary files do not belong into the kernel's source; firmware has its own repository"},
	{ID: "diff.conflict-marker", Severity: checks.Error, Title: "a conflict marker is left in the code", Source: "git-merge(1)", Fix: "resolve the conflict and make the patch again"},
	{ID: "diff.leftover-file", Severity: checks.Error, Title: "a file that a build, an editor or a merge left behind", Source: "Documentation/dontdiff", Fix: "git rm --cached FILE, and make the patch again"},
	{ID: "diff.trailing-space", Severity: checks.Warning, Title: "added lines end in blanks", Source: "scripts/checkpatch.pl TRAILING_WHITESPACE", Fix: "git rebase --whitespace=fix BASE"},
	{ID: "diff.added-cr", Severity: checks.Warning, Title: "added lines end in a carriage return", Source: "scripts/checkpatch.pl DOS_LINE_ENDINGS", Fix: "save the file with Unix line ends"},
	{ID: "diff.crlf", Severity: checks.Warning, Title: "the patch file has DOS line ends", Source: "git-apply(1), scripts/checkpatch.pl DOS_LINE_ENDINGS", Fix: "convert the file (dos2unix), or save the mail unchanged: git apply takes the carriage returns for content"},
	{ID: "diff.no-newline", Severity: checks.Note, Title: "an added file end without newline", Source: "scripts/checkpatch.pl MISSING_EOF_NEWLINE", Fix: "end the file with a newline"},
	{ID: "diff.foreign-path", Severity: checks.Note, Strict: true, Title: "no path of the series is the kernel's", Source: srcSubmitting, Fix: "make the diff at the top of the kernel tree"},

	{ID: "style.new-bug", Severity: checks.Warning, Title: "a new BUG() or BUG_ON()", Source: srcDeprecated, Fix: "handle the error, or use WARN_ON_ONCE() where a trace is useful"},
	{ID: "style.variable-order", Severity: checks.Warning, Strict: true, Title: "local variables not in reverse Christmas tree order", Source: srcNFSD + ", \"Coding style\"", Fix: "order new local variables from the longest line to the shortest"},
	{ID: "style.kernel-doc", Severity: checks.Warning, Strict: true, Title: "a new non-static function without kernel-doc", Source: srcNFSD + ", \"Coding style\"", Fix: "put a /** comment with @parameters and Return: above it"},
	{ID: "style.function-name", Severity: checks.Note, Strict: true, Title: "a new function's name is not of the subsystem's form", Source: srcNFSD + ", \"Coding style\"", Fix: "begin the name as the profile says"},
	{ID: "style.errno-on-wire", Severity: checks.Warning, Strict: true, Title: "a local error code where a protocol status is returned", Source: srcNFSD + ", \"Standards compliance\"", Fix: "map it: nfserrno(), or a status such as nfserr_io"},
}

var ruleByID = func() map[string]checks.Rule {
	m := make(map[string]checks.Rule, len(Rules))
	for _, r := range Rules {
		m[r.ID] = r
	}
	return m
}()
