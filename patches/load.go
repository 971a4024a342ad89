// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"patchcheck/patches/mail"
)

// LoadOptions says where series come from and which one is wanted.
type LoadOptions struct {
	Stdin io.Reader // read for the source "-"
	// Repo is the git repository for ranges such as "A..B", "HEAD~3.." or
	// "-3"; "" means that sources are files only.
	Repo string
	// Root selects the series that the mail with this message id belongs to:
	// a part of it, or a reply to a part. Brackets or an archive link do no harm.
	Root    string
	Version int // selects a version; 0 takes the latest
	// WithTrailers collects the trailers that replies in the same input give.
	WithTrailers bool
	// MaxBytes bounds each source, also after decompression; 0 means 64 MiB.
	MaxBytes int64
	// NoScissors keeps the text above scissors lines.
	NoScissors bool
	// Keep is given every source as it was read, for Reload. May be nil.
	Keep func(Kept)
}

const defaultMaxBytes = 64 << 20

// Load reads one series. When the sources hold several versions of one, the
// latest counts, and a Problem says so; when they hold different series, Root
// must tell which. The error is an *InputError when the input is at fault.
func Load(ctx context.Context, sources []string, opts LoadOptions) (*Series, error) {
	all, err := LoadAll(ctx, sources, opts)
	if err != nil {
		return nil, err
	}
	return choose(all, sources, opts)
}

// LoadAll reads every series found in the sources, oldest first. With
// opts.Root or opts.Version only those that match are returned.
func LoadAll(ctx context.Context, sources []string, opts LoadOptions) ([]*Series, error) {
	in, err := readSources(ctx, sources, opts)
	if err != nil {
		return nil, err
	}
	return seriesOf(in, sources, opts)
}

// seriesOf makes series of what was read.
func seriesOf(in *input, sources []string, opts LoadOptions) ([]*Series, error) {
	th := newThreads(in)
	all := th.series(opts)
	if len(all) == 0 {
		return nil, noSeries(sources, in)
	}
	for _, s := range all {
		s.Sources = usedSources(s, sources)
		s.Problems = append(s.Problems, in.problems...)
	}
	if opts.Root != "" {
		id := mail.CleanID(opts.Root)
		found := th.find(id)
		if found == nil {
			return nil, &InputError{Source: strings.Join(sources, " "), Reason: fmt.Sprintf("no series has a mail with the id <%s>", mail.PrintableLine(id)),
				Hint: "it holds " + list(all)}
		}
		all = slices.DeleteFunc(all, func(s *Series) bool { return !slices.Contains(found, s) })
	}
	if opts.Version > 0 {
		kept := slices.DeleteFunc(slices.Clone(all), func(s *Series) bool { return s.Version != opts.Version })
		if len(kept) == 0 {
			return nil, &InputError{Source: strings.Join(sources, " "), Reason: fmt.Sprintf("no series of version %d", opts.Version), Hint: "it holds " + list(all)}
		}
		all = kept
	}
	return all, nil
}

// choose picks the series that Load returns.
func choose(all []*Series, sources []string, opts LoadOptions) (*Series, error) {
	if len(all) == 1 {
		return all[0], nil
	}
	if opts.Root == "" {
		for _, s := range all[1:] {
			if !related(all[0], s) {
				return nil, &InputError{Source: strings.Join(sources, " "), Reason: fmt.Sprintf("holds %d different series", len(all)),
					Hint: "choose one by message id: " + list(all)}
			}
		}
	}
	best := all[0]
	for _, s := range all[1:] {
		if newer(s, best) {
			best = s
		}
	}
	best.Problems = append(best.Problems, Problem{ID: "series.several",
		Message: fmt.Sprintf("the input holds %d series; this is %s, left out: %s", len(all), name(best), list(slices.DeleteFunc(slices.Clone(all), func(s *Series) bool { return s == best })))})
	return best, nil
}

// newer reports whether a is the later posting: by date, since authors forget
// the version mark, then by version.
func newer(a, b *Series) bool {
	if !a.date().IsZero() && !b.date().IsZero() && a.mailed() && b.mailed() {
		if c := a.date().Compare(b.date()); c != 0 {
			return c > 0
		}
	}
	return cmp.Compare(a.Version, b.Version) >= 0
}

// related reports whether two series are versions of the same work.
func related(a, b *Series) bool {
	if a.thread != "" && a.thread == b.thread || a.ChangeID != "" && a.ChangeID == b.ChangeID || a.Title != "" && strings.EqualFold(a.Title, b.Title) {
		return true
	}
	for _, p := range a.Patches {
		for _, q := range b.Patches {
			if p.Subject != "" && strings.EqualFold(p.Subject, q.Subject) {
				return true
			}
		}
	}
	return false
}

// name is a series in a message to a person.
func name(s *Series) string {
	id := ""
	if s.Cover != nil {
		id = s.Cover.MessageID
	} else if len(s.Patches) > 0 {
		id = s.Patches[0].MessageID
	}
	t := fmt.Sprintf("v%d %q", s.Version, mail.PrintableLine(clip(s.Title, 60)))
	if id != "" {
		t += " <" + mail.PrintableLine(clip(id, 100)) + ">"
	}
	return t
}

func list(all []*Series) string {
	var parts []string
	for i, s := range all {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		parts = append(parts, name(s))
	}
	return strings.Join(parts, ", ")
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// noSeries explains why mails gave no series.
func noSeries(sources []string, in *input) error {
	e := &InputError{Source: strings.Join(sources, " "), Reason: "holds no patch",
		Hint: "give mails made by git format-patch, an mbox, a diff, or a git range"}
	count := map[mail.Kind]int{}
	for _, it := range in.items {
		count[it.m.Kind]++
		if f := it.m.Facts; it.m.Kind == mail.KindPull && count[mail.KindPull] == 1 {
			e.Reason = "is a pull request, which carries no patches"
			e.Hint = "fetch the branch it names and give the range"
			if f.PullURL != "" {
				e.Hint = fmt.Sprintf("fetch it (git fetch %s) and give the range %s..FETCH_HEAD", mail.PrintableLine(clip(f.PullURL, 200)), mail.PrintableLine(clip(f.PullBase, 64)))
			}
		}
	}
	if count[mail.KindPull] > 0 {
		return e
	}
	switch {
	case len(in.items) == 0:
		e.Reason = "holds no mail"
	case count[mail.KindReply] > 0:
		e.Reason = "holds only replies, no patch"
	case count[mail.KindRobot] > 0:
		e.Reason = "holds only a report of a robot, no patch"
	}
	return e
}

func usedSources(s *Series, sources []string) []string {
	if len(s.sources) == 0 {
		return slices.Clone(sources)
	}
	return s.sources
}

// looksBinary reports whether data is no text at all.
func looksBinary(data []byte) bool {
	head := data[:min(len(data), 8000)]
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return false // UTF-16 text
	}
	return bytes.IndexByte(head, 0) >= 0
}
