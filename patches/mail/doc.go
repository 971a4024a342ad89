// SPDX-License-Identifier: Apache-2.0

// Package mail reads one mail: it splits an mbox, decodes MIME, transfer
// encodings, charsets and encoded headers, and cuts the text into commit
// message, appendix and diff. It does not order mails into a series and does
// not parse diffs; package patches does that.
//
// The result equals that of git mailsplit --mboxrd and git mailinfo -u
// wherever both succeed, with these differences:
//
//  1. An mbox separator also needs a header line after it, so a body line
//     that merely looks like one does not split the mail.
//  2. "diff -", "Index: " and "--- name" end the message only when a diff
//     really follows. Facts.GitCut says where git am would have cut.
//  3. A scissors line is obeyed (git am --scissors) unless told otherwise.
//  4. Only the text parts of a multipart mail are read; git appends every
//     part, also HTML and signatures, to the patch.
//  5. The CR of a line is dropped when the mail as a whole ends its lines in
//     CRLF, also when that was hidden in base64 or quoted-printable; it is kept
//     when only lines of the diff's content have it, since then it belongs to
//     the file.
//  6. A charset that is unknown, or declared wrong, is a Problem; git fails.
//  7. format=flowed text is joined only within one quote depth (RFC 3676),
//     and not at all when the diff is whole only without joining.
//  8. Bytes of the header that are neither ASCII nor UTF-8 are read as
//     ISO-8859-1; git passes them on.
//  9. A body that is not what its MIME header says is read as what it is.
package mail
