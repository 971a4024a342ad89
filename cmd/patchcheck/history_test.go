// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchcheck/checks"
	"patchcheck/internal/history"
	"patchcheck/internal/runfolder"
)

// A history that cannot be written is worth a warning; the run keeps its
// verdict, and the file stays as it is.
func TestRecordOnlyWarns(t *testing.T) {
	dir := t.TempDir()
	rec, err := runfolder.Create(filepath.Join(dir, "runs"), time.Now(), "x")
	if err != nil {
		t.Fatal(err)
	}
	rec.Verdict, rec.Ended = checks.Pass, time.Now()
	bad := filepath.Join(dir, "bad.db")
	text := strings.Repeat("no database\n", 100)
	if err := os.WriteFile(bad, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	a.record(t.Context(), &historyFlag{bad}, rec)
	if s := errs.String(); !strings.Contains(s, "warning: the history") || !strings.Contains(s, "is complete in "+rec.Dir()) {
		t.Errorf("said %q", s)
	}
	if b, _ := os.ReadFile(bad); string(b) != text || rec.Verdict != checks.Pass {
		t.Error("a damaged history, or the verdict, was changed")
	}
	errs.Reset()
	good := filepath.Join(dir, "good.db")
	a.record(t.Context(), &historyFlag{good}, rec)
	a.record(t.Context(), nil, rec) // --no-history
	db, err := history.Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if f, err := db.Facts(t.Context(), rec.ID); err != nil || f.Verdict != checks.Pass || errs.Len() != 0 {
		t.Errorf("%+v, %v, %q", f, err, errs.String())
	}
}
