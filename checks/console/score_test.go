// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchcheck/internal/sharedtest"
)

// TestSuite runs the public console suite, when it is there, and holds what
// was reached.
func TestSuite(t *testing.T) {
	dir := sharedtest.Path(t, "cases", "suites", "console")
	f, err := os.Open(filepath.Join(dir, "manifest.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var total, detect, class, title int
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 8<<20)
	for sc.Scan() {
		var want struct {
			ID, Log, Title, Cls string
			Crash               bool
		}
		if err := json.Unmarshal(sc.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		log, err := os.Open(filepath.Join(dir, want.Log))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(log, Options{})
		log.Close()
		if err != nil {
			t.Fatal(err)
		}
		total++
		switch {
		case got.Crash != want.Crash:
			t.Logf("%s: detect %v, want %v (%q %q)", want.ID, got.Crash, want.Crash, got.Title, want.Title)
			continue
		case !want.Crash:
			detect, class, title = detect+1, class+1, title+1
			continue
		}
		detect++
		if string(got.Class) == want.Cls {
			class++
		} else {
			t.Logf("%s: class %s, want %s (%q %q)", want.ID, got.Class, want.Cls, got.Title, want.Title)
		}
		if got.Title == want.Title {
			title++
		} else if strings.TrimSpace(os.Getenv("TITLES")) != "" {
			t.Logf("%s: title %q, want %q", want.ID, got.Title, want.Title)
		}
	}
	// What has to hold: everything found, at most 7 of 184 classes wrong.
	if total > 0 && (detect < total || class*184 < total*177) {
		t.Errorf("below the mark")
	}
	t.Logf("%d cases: detect %d, class %d, title %d", total, detect, class, title)
}
