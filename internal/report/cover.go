// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"patchcheck/internal/runfolder"
)

// A cover letter carries the block between two marker lines. The first names
// the run, the series it tested and the block's own hash, so that Verify can
// tell an edited block from an outdated one.
var (
	beginMark = regexp.MustCompile(`(?m)^\[patchcheck (\S+) ([0-9a-f]+) ([0-9a-f]+)\]\r?\n`)
	endMark   = regexp.MustCompile(`(?m)^\[end of patchcheck\]\r?\n`)
	shortlog  = regexp.MustCompile(`(?m)^\S.* \(\d+\):\r?$`)
	diffstat  = regexp.MustCompile(`(?m)^ \S.* \| +(\d+|Bin)`)
	baseLine  = regexp.MustCompile(`(?m)^base-commit: `)
	signature = regexp.MustCompile(`(?m)^-- \r?$`)
	blurb     = regexp.MustCompile(`(?m)^\*\*\* BLURB HERE \*\*\*\r?\n`)
)

// ErrNoBlock is a cover letter that has no block of ours.
var ErrNoBlock = errors.New("the cover letter has no patchcheck block: write one with patchcheck cover --update")

func textHash(s string) string {
	h := sha256.Sum256([]byte(strings.ReplaceAll(s, "\r\n", "\n")))
	return hex.EncodeToString(h[:4])
}

func shortSeries(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

// UpdateCover returns the cover letter with the run's block between markers:
// in place of an older block, else before the shortlog, diffstat, base-commit
// line or signature, whichever comes first. All other bytes stay as they are.
func UpdateCover(letter []byte, r *runfolder.Run) ([]byte, error) {
	text := Build(r).Cover()
	block := fmt.Sprintf("[patchcheck %s %s %s]\n%s[end of patchcheck]\n", r.ID, shortSeries(r.Series.ID), textHash(text), text)
	if bytes.Contains(letter, []byte("\r\n")) {
		block = strings.ReplaceAll(block, "\n", "\r\n")
	}
	if b := beginMark.FindIndex(letter); b != nil {
		e := endMark.FindIndex(letter[b[1]:])
		if e == nil {
			return nil, errors.New("the cover letter has the beginning of a patchcheck block and no end: remove the line or restore \"[end of patchcheck]\"")
		}
		return splice(letter, b[0], b[1]+e[1], block), nil
	}
	if len(letter) == 0 {
		return nil, errors.New("the cover letter is empty")
	}
	if m := blurb.FindIndex(letter); m != nil {
		return splice(letter, m[1], m[1], newline(letter)+block), nil
	}
	at := len(letter)
	for _, re := range []*regexp.Regexp{shortlog, diffstat, baseLine, signature} {
		if m := re.FindIndex(letter); m != nil && m[0] < at {
			at = m[0]
		}
	}
	return splice(letter, at, at, block+newline(letter)), nil
}

func newline(letter []byte) string {
	if bytes.Contains(letter, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func splice(b []byte, from, to int, s string) []byte {
	out := make([]byte, 0, len(b)+len(s))
	out = append(out, b[:from]...)
	out = append(out, s...)
	return append(out, b[to:]...)
}

// VerifyCover says what is wrong with the block of a cover letter, as
// sentences; none means that it is current. seriesID is of the patches as
// they are now ("" when not known); run is the run the block names, or nil
// when its folder is gone.
func VerifyCover(letter []byte, seriesID string, run func(id string) (*runfolder.Run, error)) ([]string, error) {
	b := beginMark.FindSubmatchIndex(letter)
	if b == nil {
		return nil, ErrNoBlock
	}
	e := endMark.FindIndex(letter[b[1]:])
	if e == nil {
		return []string{"the block has no end marker"}, nil
	}
	id, series, hash := string(letter[b[2]:b[3]]), string(letter[b[4]:b[5]]), string(letter[b[6]:b[7]])
	text := string(letter[b[1] : b[1]+e[0]])
	var bad []string
	if textHash(text) != hash {
		bad = append(bad, "the block was edited after it was written")
	}
	if seriesID != "" && shortSeries(seriesID) != series {
		bad = append(bad, "the series has changed since it was tested: run patchcheck again")
	}
	r, err := run(id)
	switch {
	case err != nil:
		bad = append(bad, fmt.Sprintf("run %s cannot be read, so its figures cannot be checked: %v", id, err))
	case shortSeries(r.Series.ID) != series:
		bad = append(bad, fmt.Sprintf("run %s tested another series", id))
	case Build(r).Cover() != strings.ReplaceAll(text, "\r\n", "\n"):
		bad = append(bad, fmt.Sprintf("the text does not say what run %s recorded", id))
	}
	return bad, nil
}
