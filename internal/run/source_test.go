// SPDX-License-Identifier: Apache-2.0

package run

import (
	"reflect"
	"strings"
	"testing"

	"patchcheck/checks"
	"patchcheck/patches/diff"
)

func TestSourceAround(t *testing.T) {
	o := diff.NewOverlay(diff.MapTree{"a.c": []byte("one\ntwo\nthree\nfour\nfive\n\xff" + strings.Repeat("x", 500) + "\n")})
	s := sourceAround(o, checks.Where{File: "a.c", Line: 1})
	if s == nil || s.From != 1 || !reflect.DeepEqual(s.Lines, []string{"one", "two", "three", "four"}) {
		t.Errorf("around line 1: %+v", s)
	}
	if s := sourceAround(o, checks.Where{File: "a.c", Line: 6}); s == nil || s.From != 3 || len(s.Lines[3]) > 310 || !strings.HasPrefix(s.Lines[3], "\ufffd") {
		t.Errorf("around line 6: %+v", s)
	}
	for _, w := range []checks.Where{{}, {File: "a.c"}, {File: "a.c", Line: 99}, {File: "b.c", Line: 1}, {File: "../a.c", Line: 1}} {
		if s := sourceAround(o, w); s != nil {
			t.Errorf("%v: %+v, want nothing", w, s)
		}
	}
}
