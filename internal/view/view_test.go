// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// An observer sees each step begin, speak and end, in order; on a pipe a step
// is one line.
func TestObserve(t *testing.T) {
	var b bytes.Buffer
	v := New(&b)
	v.Start("before").End(OK, "")
	var got []string
	v.Observe(func(s Step) { got = append(got, s.Name+" "+string(s.Status)+" "+s.Detail) })
	s := v.Start("build")
	s.Update("%d%%", 5)
	s.End(Failed, "broken\x1b[31m")
	s.End(OK, "twice")
	v.Observe(nil)
	v.Start("after").End(Skipped, "")
	v.Close()
	if want := []string{"build  ", "build  5%", "build failed broken\x1b[31m"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := strings.Count(b.String(), "\n"); n != 3 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q", b.String())
	}
	if n := len(v.Steps()); n != 3 {
		t.Errorf("%d steps", n)
	}
}
