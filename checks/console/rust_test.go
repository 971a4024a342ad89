// SPDX-License-Identifier: Apache-2.0

package console

import "testing"

func TestRustName(t *testing.T) {
	for in, want := range map[string]string{
		"_RNvC4demo3run":                                   "demo::run",
		"_RNvMs_NtC4demo3modNtB4_4Type3new":                "<demo::mod::Type>::new",
		"_RNvXs_C4demoNtB4_4FileNtNtC6kernel2fs4File4open": "<demo::File as kernel::fs::File>::open",
		"_RNCNvC4demo3run0B3_":                             "demo::run::{closure}",
		"_RINvC4demo3runlE":                                "demo::run",
		"_RNvCsabcDEFghijk_4demo3run":                      "demo::run",
		"_RNvCs1234_4demo3run.llvm.12":                     "demo::run",
		"_RNvYRhC4demo3run":                                "<&u8 as demo>::run",
		"do_exit":                                          "",
		"_R":                                               "",
		"_RNvC9demo":                                       "",
		"_RB_":                                             "",
		"_RNvNvNvNvB_":                                     "",
	} {
		got, ok := rustName(in)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q %v, want %q", in, got, ok, want)
		}
	}
}

func FuzzRustName(f *testing.F) {
	f.Add("_RNvXs_C4demoNtB4_4FileNtNtC6kernel2fs4File4open")
	f.Fuzz(func(t *testing.T, s string) { rustName(s) })
}
