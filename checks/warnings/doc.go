// SPDX-License-Identifier: Apache-2.0

// Package warnings reads kernel build logs and says which diagnostics a patch
// added, fixed, moved or changed.
//
// A log is whatever make printed: gcc, clang, sparse, kernel-doc, modpost,
// objtool, the linkers, the assembler, Kconfig, dtc, rustc, Sphinx, smatch and
// coccinelle, mixed with kbuild's own lines, in any order that -j leaves them.
// Parse turns it into diagnostics, objects compiled and facts about the build
// (compiler, flags, targets that failed).
//
// Two sides are compared as a multiset: a diagnostic is known by file,
// severity, flag, function and the message without its line numbers, offsets
// and counters, never by its own line. Of several that are alike those are
// paired first that stand where the patch moved them. What was built with
// another compiler, other flags or another set of objects is not comparable,
// and the result says so.
//
// A Ledger keeps the diagnostics of each object's latest compile, so that two
// states of an object folder can be compared although each build compiled
// only a few objects.
//
// The package reads and compares; it runs no make.
package warnings
