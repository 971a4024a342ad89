// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"patchcheck/patches/mail"
)

// item is one mail with its place in the input.
type item struct {
	m      *mail.Message
	source string
	seq    int
}

// input is everything read.
type input struct {
	items    []*item
	base     string // parent of the first commit of a git range
	problems []Problem
	keep     func(Kept)
}

func (in *input) add(source string, ms ...*mail.Message) {
	for _, m := range ms {
		in.items = append(in.items, &item{m: m, source: source, seq: len(in.items)})
	}
}

// maxFolderFiles bounds how many files of a folder are read.
const maxFolderFiles = 5000

func readSources(ctx context.Context, sources []string, opts LoadOptions) (*input, error) {
	if len(sources) == 0 {
		return nil, &InputError{Reason: "no series given", Hint: `name patch files, a folder, an mbox, "-" for standard input, or a git range`}
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	in := &input{keep: opts.Keep}
	stdin := false
	for _, src := range sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if src == "-" {
			if stdin {
				return nil, &InputError{Source: src, Reason: "given twice"}
			}
			stdin = true
			if opts.Stdin == nil {
				return nil, &InputError{Source: src, Reason: "nothing to read"}
			}
			if err := in.reader(src, opts.Stdin, opts); err != nil {
				return nil, err
			}
			continue
		}
		st, err := os.Stat(src)
		switch {
		case err == nil && st.IsDir():
			err = in.folder(ctx, src, opts)
		case err == nil && !st.Mode().IsRegular() && st.Mode()&fs.ModeNamedPipe == 0 && st.Mode()&fs.ModeCharDevice == 0:
			err = &InputError{Source: src, Reason: "is no regular file"}
		case err == nil:
			err = in.file(src, opts)
		case opts.Repo != "" && looksLikeRange(src):
			err = in.gitRange(ctx, src, opts)
		case looksLikeRange(src) && (strings.Contains(src, "..") || reLast.MatchString(src)):
			err = &InputError{Source: src, Reason: "is no file, and as a git range it needs a repository", Hint: "run inside the repository or name it"}
		case errors.Is(err, fs.ErrNotExist):
			err = &InputError{Source: src, Reason: "no such file", Hint: "name patch files, a folder, an mbox, \"-\" for standard input, or a git range"}
		default:
			err = &InputError{Source: src, Reason: "cannot be read", Err: errors.Unwrap(err)}
		}
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (in *input) file(path string, opts LoadOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return &InputError{Source: path, Reason: "cannot be read", Err: errors.Unwrap(err)}
	}
	defer f.Close()
	return in.reader(path, f, opts)
}

// readLimited reads r whole, at most max bytes.
func readLimited(source string, r io.Reader, size int64, max int64) ([]byte, error) {
	tooBig := &InputError{Source: source, Reason: fmt.Sprintf("is larger than %d MiB", max>>20), Hint: "split it, or give only the mails of the series"}
	if size > max {
		return nil, tooBig
	}
	var buf bytes.Buffer
	if size > 0 {
		buf.Grow(int(size) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r, max+1))
	if err != nil {
		return nil, &InputError{Source: source, Reason: "cannot be read", Err: err}
	}
	if n > max {
		return nil, tooBig
	}
	return buf.Bytes(), nil
}

func (in *input) reader(source string, r io.Reader, opts LoadOptions) error {
	var size int64
	if f, ok := r.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			size = st.Size()
		}
	}
	br := bufio.NewReader(r)
	head, _ := br.Peek(6)
	var src io.Reader = br
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")): // archives offer threads as .mbox.gz
		z, err := gzip.NewReader(br)
		if err != nil {
			return &InputError{Source: source, Reason: "is damaged gzip data", Err: err}
		}
		src, size = z, 0
	case bytes.HasPrefix(head, []byte("BZh")):
		src, size = bzip2.NewReader(br), 0
	case bytes.HasPrefix(head, []byte("\xfd7zXZ")), bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return &InputError{Source: source, Reason: "is compressed", Hint: "unpack it first (xz -d, zstd -d)"}
	}
	data, err := readLimited(source, src, size, opts.MaxBytes)
	if err != nil {
		return err
	}
	return in.bytes(source, data, opts)
}

// bytes reads one source that is in memory.
func (in *input) bytes(source string, data []byte, opts LoadOptions) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return &InputError{Source: source, Reason: "is empty", Hint: "give a patch made by git format-patch, an mbox, or a diff"}
	}
	data = fromUTF16(data)
	if looksBinary(data) && !mail.IsMbox(data) && !mail.LooksLikeMail(data) {
		return &InputError{Source: source, Reason: "is binary data, not a patch", Hint: "give a patch made by git format-patch, an mbox, or a diff"}
	}
	mo := mail.Options{NoScissors: opts.NoScissors}
	before := len(in.items)
	switch {
	case mail.IsMbox(data):
		for _, raw := range mail.Split(data) {
			in.add(source, mail.Parse(raw, mo))
		}
	case mail.LooksLikeMail(data):
		for _, raw := range mail.Split(data) {
			in.add(source, mail.Parse(raw, mo))
		}
	default:
		for _, read := range []func([]byte, mail.Options) []*mail.Message{gitShow, hgExport, archivePage} {
			if in.add(source, read(data, mo)...); len(in.items) > before {
				break
			}
		}
		if len(in.items) == before {
			if m := plainDiff(data, mo); m != nil {
				in.add(source, m)
			}
		}
	}
	if len(in.items) == before {
		hint := "give a patch made by git format-patch, an mbox, or a diff"
		reason := "is not a patch: no mail header and no diff"
		if bytes.Contains(data, []byte("\n@@ -")) || bytes.HasPrefix(data, []byte("@@ -")) {
			reason = `is not a whole patch: it has hunks, but no "--- name" and "+++ name" lines before them`
		} else if bytes.Contains(data[:min(len(data), 4096)], []byte("<html")) || bytes.Contains(data[:min(len(data), 4096)], []byte("<!DOCTYPE")) {
			reason = "is an HTML page, not a patch"
			hint = "download the mail itself: the raw or mbox.gz link of the archive"
		}
		return &InputError{Source: source, Reason: reason, Hint: hint}
	}
	if in.keep != nil {
		in.keep(Kept{Source: source, Data: data})
	}
	return nil
}

// fromUTF16 converts text that a Windows shell's redirection wrote.
func fromUTF16(data []byte) []byte {
	if len(data) < 4 {
		return data
	}
	le := bytes.HasPrefix(data, []byte("\xff\xfe"))
	if !le && !bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return data
	}
	u := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		if le {
			u = append(u, uint16(data[i])|uint16(data[i+1])<<8)
		} else {
			u = append(u, uint16(data[i+1])|uint16(data[i])<<8)
		}
	}
	return bytes.ReplaceAll([]byte(string(utf16.Decode(u))), []byte("\r\n"), []byte("\n"))
}

var (
	mailNames = regexp.MustCompile(`(?i)\.(patch|diff|eml|mbox|mbx|mail|msg|mbox\.gz|patch\.gz|mbx\.gz)$`)
	// Left behind by editors and patch(1), or written by b4 beside the mails.
	skipNames = regexp.MustCompile(`(?i)(^\.|~$|\.(orig|rej|swp|bak|cover|thanks|am|log|json|c|h|py|sh)$)`)
)

// folder reads the mails of a folder in the order of their names, or in that
// of a quilt series file, or a Maildir.
func (in *input) folder(ctx context.Context, dir string, opts LoadOptions) error {
	var names []string
	if b, err := os.ReadFile(filepath.Join(dir, "series")); err == nil && len(b) < 1<<20 {
		for _, l := range strings.Split(string(b), "\n") {
			l, _, _ = strings.Cut(l, "#")
			if f := strings.Fields(l); len(f) > 0 && filepath.IsLocal(f[0]) {
				if st, err := os.Stat(filepath.Join(dir, f[0])); err == nil && st.Mode().IsRegular() {
					names = append(names, f[0])
				}
			}
		}
	}
	if len(names) == 0 {
		for _, sub := range []string{".", "cur", "new"} {
			maildir := sub != "."
			if maildir {
				if _, err := os.Stat(filepath.Join(dir, "cur")); err != nil {
					continue
				}
			}
			es, err := os.ReadDir(filepath.Join(dir, sub))
			if err != nil && !maildir {
				return &InputError{Source: dir, Reason: "cannot be read", Err: errors.Unwrap(err)}
			}
			for _, e := range es {
				if e.Type().IsRegular() && (!skipNames.MatchString(e.Name()) || maildir && e.Name()[0] != '.') {
					names = append(names, filepath.Join(sub, e.Name()))
				} else if e.Type()&fs.ModeSymlink != 0 && mailNames.MatchString(e.Name()) {
					if st, err := os.Stat(filepath.Join(dir, sub, e.Name())); err == nil && st.Mode().IsRegular() {
						names = append(names, filepath.Join(sub, e.Name()))
					}
				}
			}
		}
		slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	}
	if len(names) > maxFolderFiles {
		return &InputError{Source: dir, Reason: fmt.Sprintf("holds %d files", len(names)), Hint: "give a folder with the mails of one series"}
	}
	before := len(in.items)
	var total int64
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := filepath.Join(dir, n)
		if st, err := os.Stat(p); err == nil {
			if total += st.Size(); total > opts.MaxBytes {
				return &InputError{Source: dir, Reason: fmt.Sprintf("holds more than %d MiB", opts.MaxBytes>>20), Hint: "give a folder with the mails of one series"}
			}
		}
		if err := in.file(p, opts); err != nil {
			// Only a file that is named like a patch has to be one.
			if mailNames.MatchString(n) {
				return err
			}
		}
	}
	if len(in.items) == before {
		return &InputError{Source: dir, Reason: "is a folder without patches", Hint: "give the folder that git format-patch -o wrote to"}
	}
	return nil
}
