// SPDX-License-Identifier: Apache-2.0

// Package diff reads unified diffs, finds where their hunks belong in a tree,
// applies them to an overlay of that tree and says what became of each file
// and hunk. Nothing is written until Write is called with a folder of our own.
//
// The way of a patch:
//
//	Parse     text -> []*File, with errors that name line and reason
//	Apply     []*File + Overlay -> Overlay + Result; ApplySeries for several
//	Explain   Result -> text for a person
//	Write     Overlay -> the files that differ, in a folder
//
// Check is Parse and Apply in one. Candidates compares trees, Repo reads a git
// repository (trees of commits, blobs, the commit that a series was made
// against, the commit that made a change before).
//
// # Who does what
//
// The headers and the extent of hunks are read here, because go-gitdiff
// ignores surplus lines, merge diffs and unsafe names without an error. The
// place of each hunk is found here too, because go-gitdiff only takes hunks
// that are exactly where their header says. The new content of a text file is
// made by go-gitdiff from hunks moved to their place and is compared with the
// locator's own; binary data is decoded and applied by go-gitdiff. This
// package is the only one that imports it.
//
// # Classes
//
// Result.Applies is what git apply decides; Result.Class says what it means,
// and also tells apart the reasons for a refusal. Content alone cannot tell a
// reversed patch from one that was applied before: Reversed is only said when
// there is a sign of it, which Result.Reason names (swapped a/ and b/
// prefixes, a new file named .orig, or a tree that is exactly the new side of
// a patch that removes more than it adds). A caller with the history should
// ask Repo.AppliedBy and believe that more.
//
// Fuzz follows the search of GNU patch with its default of two lines.
// Ambiguous is said of a hunk that moved, when it fits in several places, or
// when a nearer place differs only in outer context or has the new side
// already; not when an unmistakable hunk of the same file moved by as much.
//
// # Three-way merges
//
// With Options.Blob a file that the hunks do not fit is merged with git
// merge-file, the machinery of git am -3, from the blob named by the index
// line. It is never done unasked, a merged file keeps its class, and
// Result.ThreeWay says that the overlay holds a merge.
//
// # Differences from git apply
//
// Decision, offsets and content are those of git apply (2.39, default
// options, outside a repository) but for the following. Tests compare both
// over generated cases and over odd headers.
//
//  1. Names are judged more strictly: absolute names, drive letters,
//     backslashes that would lead out of the tree, names that HFS+ or NTFS
//     take for .git, control characters, NUL, and the source of a copy (git
//     copies from /etc/passwd when told to). UnsafePath.
//  2. Changed lines directly behind the end of a hunk are an error. git skips
//     them as text between files and so loses a part of the change. Corrupt.
//  3. A hunk whose last context line has no newline, where the tree's line has
//     one, is refused, and so is an insertion without context behind a last
//     line without newline. git takes both and joins two lines into one.
//  4. The strip level is found: names with other than one leading folder
//     (diff -u without a/ and b/, git diff --no-prefix, -p2 and deeper) are
//     matched with the files of the tree. git needs -p.
//  5. "Binary files a/x and b/x differ" without a git header (diff -r) is
//     reported as BinaryNoData. git skips the line.
//  6. Line numbers above 2^30 in a hunk header are Corrupt, and a binary file
//     above 100 MiB is refused.
//  7. A submodule is never changed; Applies says what git apply decides
//     without an index.
//  8. A binary patch is taken only with its data; git also takes one without
//     when the new blob is in its object store.
//  9. A search that compares more than 2^28 lines ends as a Conflict that says
//     so.
//  10. The mode of an unchanged file stays as it is in the tree, also where git
//     would write 0644 or 0755 by the umask.
//  11. Options of git apply other than --unidiff-zero, --3way and -R (as
//     AlreadyApplied and Reversed) have no counterpart; white space is never
//     corrected.
package diff
