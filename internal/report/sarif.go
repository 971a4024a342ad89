// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"patchcheck/checks"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/sarif"
	"patchcheck/patches/mail"
)

// runBase is the base of references to files of the run folder.
const runBase = "RUN"

// SARIF writes the run's findings as SARIF 2.1.0. known describes rules by id
// and may be nil.
//
// What the series did is a result. What the base kernel does too is a result
// that is suppressed, with the reason. Troubles of ours are no results but
// notifications of the invocation, so that no reader opens an alert for them.
func SARIF(w io.Writer, r *runfolder.Run, known func(id string) (checks.Rule, bool)) error {
	rules := &sarif.Rules{List: []sarif.Rule{}}
	inv := sarif.Invocation{OK: r.Verdict != "" && r.Verdict != checks.Infra, Start: r.Started.UTC().Format("2006-01-02T15:04:05.000Z")}
	if !r.Ended.IsZero() {
		inv.End = r.Ended.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	var run sarif.Run
	run.Tool.Driver = sarif.Driver{Name: "patchcheck", Version: r.Tool}
	run.Automation = &struct {
		ID string `json:"id"`
	}{"patchcheck/" + benchWord(r.Plan.Name) + "/" + r.ID}
	run.Results = []sarif.Result{}
	run.Props = map[string]string{"verdict": string(r.Verdict)}
	for _, f := range facts(r) {
		run.Props[f.Name] = f.Value
	}
	seen := map[string]int{}
	add := func(f checks.Finding, cell *runfolder.Cell) {
		message := sarif.Text{Text: mail.Printable(f.Message)}
		if message.Text == "" {
			message.Text = f.ID
		}
		loc := sarif.Location{}
		// A name that leads out of the tree is quoted by the message only: a
		// reader must not follow it.
		if f.Where.File != "" && filepath.IsLocal(f.Where.File) {
			loc.Physical = &sarif.Physical{Artifact: sarif.Artifact{URI: sarif.URI(f.Where.File)},
				Region: &sarif.Region{StartLine: max(1, f.Where.Line), StartColumn: max(0, f.Where.Col)}}
		}
		var related []sarif.Location
		if cell != nil {
			loc.Logical = []sarif.Logical{{Qualified: cell.ID, Kind: "cell"}}
			for _, a := range cell.Attempts {
				if a.Guest != "" && a.Verdict != checks.Pass {
					related = append(related, sarif.Location{
						Physical: &sarif.Physical{Artifact: sarif.Artifact{URI: sarif.URI("console/" + a.Guest + "/console.log"), URIBase: runBase}},
						Message:  &sarif.Text{Text: "console of this attempt"}})
				}
			}
			if loc.Physical == nil && len(related) > 0 {
				loc.Physical = related[0].Physical
			}
		} else if f.Where.Patch > 0 {
			loc.Logical = []sarif.Logical{{Name: fmt.Sprintf("patch %s", patchName(r, f.Where.Patch)), Kind: "patch"}}
		}
		if loc.Physical == nil { // readers want a file in every location
			file := "run.json"
			if cell != nil {
				file = "cells/" + strings.ReplaceAll(cell.ID, "/", ".") + ".json"
			} else if f.Where.Patch > 0 {
				file = fmt.Sprintf("series/%04d.diff", f.Where.Patch)
			}
			loc.Physical = &sarif.Physical{Artifact: sarif.Artifact{URI: sarif.URI(file), URIBase: runBase}, Region: &sarif.Region{StartLine: 1}}
		}
		locs := []sarif.Location{loc}
		if strings.HasSuffix(f.ID, "infra") || cell != nil && cell.Verdict == checks.Infra {
			inv.Notifications = append(inv.Notifications, sarif.Notification{Level: "warning", Message: message, Locations: locs})
			return
		}
		where := ""
		if cell != nil {
			where = cell.ID
		}
		key := f.ID + "\n" + where + "\n" + f.Where.File
		seen[key]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d", key, seen[key]))
		res := sarif.Result{RuleID: f.ID, RuleIndex: rules.Add(f, known), Level: string(f.Severity), Message: message, Locations: locs, Related: related,
			Fingerprints: map[string]string{"patchcheck/v1": hex.EncodeToString(sum[:12])}, Props: map[string]string{}}
		if cell != nil {
			res.Props["verdict"] = string(cell.Verdict)
			if cell.Verdict == checks.BaseFails {
				res.Suppress = []sarif.Suppression{{Kind: "external", Why: "the base kernel does it too"}}
			} else if q := cell.Quarantine; q != nil {
				res.Suppress = []sarif.Suppression{{Kind: "external", Why: line(fmt.Sprintf("in quarantine until %s (%s): %s", q.Expires, q.Owner, q.Reason))}}
			}
		}
		if len(f.Evidence) > 0 {
			res.Props["evidence"] = mail.Printable(strings.Join(f.Evidence, "\n"))
		}
		run.Results = append(run.Results, res)
	}
	for _, f := range r.Findings {
		add(f, nil)
	}
	for _, c := range r.Cells {
		for _, f := range c.Findings {
			add(f, c)
		}
	}
	if !inv.OK {
		why := line(r.Reason)
		if why == "" {
			why = "the run did not come to an end"
		}
		inv.Notifications = append(inv.Notifications, sarif.Notification{Level: "error", Message: sarif.Text{Text: why}})
	}
	run.Tool.Driver.Rules = rules.List
	run.Invocations = []sarif.Invocation{inv}
	run.Bases = map[string]sarif.Base{runBase: {Description: &sarif.Text{Text: "the run folder of " + r.ID}}}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	return enc.Encode(sarif.Log{Schema: sarif.Schema, Version: sarif.Version, Runs: []sarif.Run{run}})
}
