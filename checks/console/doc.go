// SPDX-License-Identifier: Apache-2.0

// Package console reads what a kernel wrote on its console, from power-on to
// the last byte, and says what went wrong: a class, a title that stays the
// same over addresses, compilers and CPUs, and the lines that prove it.
//
// It is pure: text in, facts out. It decodes no addresses itself: Symbols lists
// those of a report, internal/kernel asks the tree's own script for their lines,
// and Decode puts them where they belong. It decides no verdict of a cell.
//
// Three layers:
//
//   - line.go cuts the byte stream into kernel lines: terminal escapes,
//     printk prefixes, several lines that two writers put into one.
//   - headers.go knows the first lines of the kernel's reports (the format
//     strings of kernel/, mm/, lib/ and arch/) and what looks like them
//     without being one.
//   - detector.go keeps reports open while their lines arrive, one for each
//     printing context, and closes them; title.go and frames.go then name
//     the function.
//
// Titles follow the style of syzbot, which kernel people search for: "KASAN:
// slab-use-after-free Read in foo", "WARNING in foo", "INFO: task hung in
// foo". A function that the log does not show is "corrupted", as there.
package console
