// SPDX-License-Identifier: Apache-2.0

package mail

import "patchcheck/checks"

// Rules describes every problem that Parse can report.
var Rules = []checks.Rule{
	{ID: "mail.header-size", Severity: checks.Error, Title: "mail header is absurdly large", Source: "RFC 5322", Fix: "send the patch again with git send-email"},
	{ID: "mail.line-length", Severity: checks.Error, Title: "mail has a line of more than 1 MiB", Source: "RFC 5322 2.1.1", Fix: "send the patch again with git send-email, which encodes long lines"},
	{ID: "mail.text-size", Severity: checks.Error, Title: "message is absurdly long", Source: "Documentation/process/submitting-patches.rst", Fix: "send the patch again with git send-email"},
	{ID: "mail.mime-depth", Severity: checks.Error, Title: "MIME parts nested too deep", Source: "RFC 2046", Fix: "send the patch as plain text"},
	{ID: "mail.mime-parts", Severity: checks.Error, Title: "too many MIME parts or attached mails", Source: "RFC 2046", Fix: "send one mail per patch, as plain text"},
	{ID: "mail.mime-wrong", Severity: checks.Warning, Title: "the mail is not what its MIME header says", Source: "RFC 2046", Fix: "have the sender post again without re-encoding relays; git am may refuse the mail as it is"},
	{ID: "mail.mime-truncated", Severity: checks.Warning, Title: "multipart mail without its end", Source: "RFC 2046 5.1.1", Fix: "get the mail again; it may have been cut"},
	{ID: "mail.transfer-encoding", Severity: checks.Warning, Title: "body is not in the encoding that the header declares", Source: "RFC 2045 6", Fix: "post again with git send-email"},
	{ID: "mail.quoted-crlf", Severity: checks.Warning, Title: "CRLF line ends hidden in base64 or quoted-printable", Source: "git-am(1) --quoted-cr", Fix: "apply with git am --quoted-cr=strip, or post again without the relay that did it"},
	{ID: "mail.nul-byte", Severity: checks.Error, Title: "text holds NUL bytes", Source: "git-mailinfo(1)", Fix: "post again with git send-email"},
	{ID: "mail.html-only", Severity: checks.Error, Title: "mail is HTML only", Source: "Documentation/process/email-clients.rst", Fix: "send plain text"},
	{ID: "mail.charset-missing", Severity: checks.Warning, Title: "text is not ASCII and no charset is declared", Source: "RFC 2045 5.2", Fix: "declare UTF-8: git send-email --8bit-encoding=UTF-8"},
	{ID: "mail.charset-unknown", Severity: checks.Error, Title: "unknown charset", Source: "RFC 2045 5.2", Fix: "send the mail in UTF-8"},
	{ID: "mail.charset-wrong", Severity: checks.Warning, Title: "text is not in the declared charset", Source: "RFC 2045 5.2", Fix: "send the mail in UTF-8 and declare it"},
	{ID: "mail.no-diff", Severity: checks.Error, Title: "a patch mail without a diff", Source: "Documentation/process/submitting-patches.rst", Fix: "make the mail with git format-patch; a cover letter is numbered 0/n"},
	{ID: "mail.message-cut", Severity: checks.Warning, Title: "git am would cut the commit message", Source: "git-mailinfo(1)", Fix: "indent the line, or reword it"},
}
