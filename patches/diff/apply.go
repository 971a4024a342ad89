// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Options choose how Apply works. The zero value decides as plain git apply.
type Options struct {
	// UnidiffZero takes hunks without context where their header says, as git
	// apply --unidiff-zero.
	UnidiffZero bool
	// Blob looks up a blob by the id of an index line, which may be
	// abbreviated. When it is set, a file whose hunks do not fit is merged
	// three ways between the blob that the diff was made against, the tree's
	// file and the patched blob, with git merge-file. Result.ThreeWay tells.
	Blob func(oid string) ([]byte, error)
	// Context bounds the programs that a three-way merge runs; nil means
	// context.Background().
	Context context.Context
}

// Check reads the diff text b and applies it to t. A diff that cannot be read
// is a Result too; the error is for a tree that cannot be read.
func Check(t *Overlay, b []byte, opts Options) (*Overlay, *Result, error) {
	files, err := Parse(b)
	if err == nil {
		return Apply(t, files, opts)
	}
	var pe *ParseError
	if !errors.As(err, &pe) {
		return t, nil, err
	}
	r := ResultOf(pe)
	// A name that leads out of the tree is worth more than damage behind it.
	for _, f := range files {
		if why := unsafeNames(f); why != nil {
			r.Class, r.Reason, r.Hint = UnsafePath, why.Error(), ""
		}
	}
	return t, r, nil
}

// ResultOf is the Result of a diff that cannot be read.
func ResultOf(e *ParseError) *Result {
	return &Result{Class: e.Class, Reason: e.Error(), Hint: e.Hint, Line: e.Line, Hunk: e.Hunk}
}

// Apply applies the files of one patch to t and returns the overlay with the
// patch in it, or t itself when git apply would refuse the patch (and no
// three-way merge was asked for). Either all files are applied or none. The
// Result has each file and hunk, also those behind the first failure. The
// error is for a tree that cannot be read, not for a patch that does not fit.
func Apply(t *Overlay, files []*File, opts Options) (*Overlay, *Result, error) {
	a := &applier{
		t: t, opts: opts, budget: newBudget(),
		table: map[string]*entry{}, kept: map[string]bool{}, removed: map[string]bool{}, plain: map[string]bool{},
	}
	r := &Result{}
	if len(files) == 0 {
		r.Class, r.Reason = Empty, "there is no change in it"
		return t, r, nil
	}
	files, err := a.resolve(files)
	if err != nil {
		return t, nil, err
	}
	r.Files = make([]FileResult, len(files))
	a.prepare(files)
	outs := make([]*outcome, len(files))
	for i, f := range files {
		fr := &r.Files[i]
		out, err := a.file(f, fr)
		if err != nil {
			return t, nil, fmt.Errorf("cannot apply the change of %s: %w", f.Path(), err)
		}
		outs[i] = out
	}
	next := t
	merged := a.conclude(files, r)
	if r.Applies || merged {
		next = t.With(changes(files, outs)...)
	}
	return next, r, nil
}

// outcome is the new state of a file.
type outcome struct {
	content []byte
	mode    fs.FileMode
	skip    bool // a submodule: nothing to write
}

// entry is a file as patched so far by this patch.
type entry struct {
	out      *outcome
	willGo   bool // some file of the patch deletes it or renames it away
	wentAway bool // that has happened
}

type applier struct {
	t      *Overlay
	opts   Options
	budget *budget

	table   map[string]*entry
	kept    map[string]bool // symbolic links that the patch creates or changes
	removed map[string]bool // symbolic links that the patch takes away
	plain   map[string]bool // folders of the tree that are no symbolic links
}

// resolve settles the names of diffs whose strip level is not certain, by what
// is in the tree. The files given are not changed.
func (a *applier) resolve(files []*File) ([]*File, error) {
	created := map[string]bool{}
	out := make([]*File, len(files))
	for i, f := range files {
		out[i] = f
		noPrefix := !f.traditional && f.rawOld != "" && f.rawOld == f.rawNew
		if (f.traditional || noPrefix) && unsafeNames(f) == nil {
			g := *f
			if found, err := a.restrip(&g, created); err != nil {
				return nil, err
			} else if found {
				out[i] = &g
			}
		}
		created[out[i].New] = true
	}
	return out, nil
}

// restrip tries the strip levels 1, 0, 2, 3... when the names as parsed are
// not in the tree.
func (a *applier) restrip(f *File, created map[string]bool) (bool, error) {
	exists := func(name string) bool {
		if name == "" || CheckPath(name) != nil {
			return false
		}
		if created[name] {
			return true
		}
		_, mode, err := a.t.ReadFile(name)
		return err == nil && !mode.IsDir()
	}
	known := func() bool {
		if f.Old != "" {
			return exists(f.Old)
		}
		d := path.Dir(f.New)
		if d == "." {
			return true
		}
		_, mode, err := a.t.ReadFile(d)
		return err == nil && mode.IsDir()
	}
	if known() {
		return false, nil
	}
	oldName, newName := f.Old, f.New
	depth := max(strings.Count(f.rawOld, "/"), strings.Count(f.rawNew, "/"))
	for _, n := range []int{1, 0, 2, 3, 4, 5, 6, 7, 8} {
		if n > depth {
			continue
		}
		if f.traditional {
			f.setPlainNames(n)
		} else {
			f.Old, f.New = stripName(f.rawOld, n), stripName(f.rawNew, n)
			if oldName == "" {
				f.Old = ""
			}
			if newName == "" {
				f.New = ""
			}
		}
		if f.Path() != "" && known() {
			f.Notes = append(slices.Clone(f.Notes), fmt.Sprintf("the names fit the tree with %d leading folders taken away (-p%d)", n, n))
			return true, nil
		}
	}
	f.Old, f.New = oldName, newName
	return false, nil
}

// unsafeNames checks every name of a file, also as written.
func unsafeNames(f *File) error {
	for _, n := range []string{f.Old, f.New} {
		if n == "" {
			continue
		}
		if err := CheckPath(n); err != nil {
			return err
		}
	}
	for _, n := range []string{f.rawOld, f.rawNew} {
		if n == "" || n == devNull {
			continue
		}
		if strings.HasPrefix(n, "/") || strings.HasPrefix(n, "../") {
			return CheckPath(n)
		}
	}
	return nil
}

// Git's file types within a mode.
const (
	modeType    = 0o170000
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

// gitMode is the mode that git would store for a file.
func gitMode(m fs.FileMode) uint32 {
	switch {
	case m&fs.ModeSymlink != 0:
		return modeLink
	case m.IsDir():
		return modeGitlink
	case m&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// withMode turns the mode of a file into the one that git mode m asks for,
// keeping as much of it as git's two bits leave open.
func withMode(cur fs.FileMode, m uint32) fs.FileMode {
	switch {
	case m&modeType == modeLink:
		return fs.ModeSymlink | 0o777
	case cur&fs.ModeSymlink != 0 || cur == 0:
		cur = 0o644
	}
	if m&0o100 != 0 {
		return cur.Perm() | (cur.Perm()&0o444)>>2
	}
	return cur.Perm() &^ 0o111
}

// prepare notes deletions and symbolic links of the whole patch: git patches
// do not depend on the order of their files.
func (a *applier) prepare(files []*File) {
	for _, f := range files {
		if f.New == "" || f.IsRename {
			a.get(f.Old).willGo = true
		}
		if f.Old != "" && f.OldMode&modeType == modeLink && (f.IsRename || f.IsDelete) {
			a.removed[f.Old] = true
		}
		mode := f.NewMode
		if mode == 0 && !f.IsDelete {
			mode = f.OldMode
		}
		if f.New != "" && mode&modeType == modeLink {
			a.kept[f.New] = true
		}
	}
}

func (a *applier) get(name string) *entry {
	e := a.table[name]
	if e == nil {
		e = &entry{}
		a.table[name] = e
	}
	return e
}

// beyondLink says whether a leading folder of name is or becomes a symbolic
// link.
func (a *applier) beyondLink(name string) (string, error) {
	link := ""
	var err error
	parents(name, func(dir string) bool {
		switch {
		case a.kept[dir]:
			link = dir
			return false
		case a.removed[dir]:
			return true
		}
		if a.plain[dir] {
			return true
		}
		_, mode, e := a.t.ReadFile(dir)
		switch {
		case errors.Is(e, ErrSymlink), errors.Is(e, fs.ErrNotExist), errors.Is(e, syscall.ENOTDIR):
			return true // the link is further up, if there is one
		case e != nil:
			err = e
			return false
		case mode&fs.ModeSymlink != 0:
			link = dir
			return false
		}
		a.plain[dir] = true
		return true
	})
	return link, err
}

// file applies one file. A nil outcome with a nil error means that it was
// deleted or failed; fr says which.
func (a *applier) file(f *File, fr *FileResult) (*outcome, error) {
	fr.Path, fr.Base, fr.WantOID = f.Path(), BaseUnknown, f.OldOID
	fr.Notes = append(fr.Notes, f.Notes...)
	if f.Old != "" && f.New != "" && f.Old != f.New {
		fr.OldPath = f.Old
	}
	fail := func(c Class, format string, args ...any) (*outcome, error) {
		fr.Class, fr.Applies, fr.Reason = c, false, fmt.Sprintf(format, args...)
		return nil, nil
	}
	if err := unsafeNames(f); err != nil {
		return fail(UnsafePath, "%v", err)
	}
	for _, n := range []string{f.Old, f.New} {
		if n == "" {
			continue
		}
		link, err := a.beyondLink(n)
		if err != nil {
			return nil, err
		}
		if link != "" {
			return fail(UnsafePath, "%s is beyond the symbolic link %s", n, link)
		}
	}
	if f.OldMode&modeType == modeGitlink || f.NewMode&modeType == modeGitlink {
		return a.submodule(f, fr)
	}

	// What the patch finds.
	isNew := f.IsNew
	var old []byte
	var mode fs.FileMode
	if f.Old != "" && !f.IsNew {
		prev := a.table[f.Old]
		switch {
		case prev != nil && !f.IsRename && !f.IsCopy && prev.wentAway:
			return fail(MissingFile, "%s was renamed or deleted earlier in the same patch", f.Old)
		case prev != nil && !f.IsRename && !f.IsCopy && prev.out != nil:
			old, mode = prev.out.content, prev.out.mode
		default:
			var err error
			old, mode, err = a.t.ReadFile(f.Old)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				if f.mayCreate() {
					isNew = true
					break
				}
				return a.missing(f, fr)
			case errors.Is(err, ErrSymlink):
				return fail(UnsafePath, "%s is beyond a symbolic link", f.Old)
			case err != nil && mode != 0 && !mode.IsRegular():
				return fail(Conflict, "%s is a device, pipe or socket in the tree", f.Old)
			case err != nil:
				return nil, err
			case mode.IsDir():
				return fail(Conflict, "%s is a folder in the tree", f.Old)
			}
		}
		if !isNew {
			a.compareBase(f, fr, old)
			if f.OldMode != 0 && (gitMode(mode)^f.OldMode)&modeType != 0 {
				return fail(Conflict, "%s has another type in the tree: %s, where the patch expects %s", f.Old, typeName(gitMode(mode)), typeName(f.OldMode))
			}
			if f.NewMode != 0 && (gitMode(mode)^f.NewMode)&modeType != 0 {
				return fail(Conflict, "the new mode %o of %s does not go with its old one, %o", f.NewMode, f.New, gitMode(mode))
			}
			if f.OldMode != 0 && gitMode(mode) != f.OldMode {
				fr.Notes = append(fr.Notes, fmt.Sprintf("has mode %o in the tree, the patch expects %o", gitMode(mode), f.OldMode))
			}
		}
	}
	name := f.New
	if isNew && name == "" {
		name = f.Old
	}
	// Where the result goes.
	if name != "" && (isNew || f.IsRename || f.IsCopy) {
		e := a.table[name]
		okIfExists := e != nil && (e.willGo || e.wentAway)
		cur, curMode, err := a.t.ReadFile(name)
		if e != nil && e.out != nil {
			// Created earlier in the same patch; git looks only at the tree.
			err = nil
			if _, _, treeErr := a.t.ReadFile(name); treeErr != nil {
				err = treeErr
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrSymlink):
		case err != nil && curMode == 0:
			return nil, err
		case curMode.IsDir() || okIfExists:
		default:
			return a.exists(f, fr, name, isNew, old, cur)
		}
	}
	if isNew && f.OldOID != "" {
		fr.Base = BaseMatch
	}

	out := &outcome{mode: mode}
	switch {
	case isNew && f.NewMode != 0:
		out.mode = withMode(0, f.NewMode)
	case isNew:
		out.mode = 0o644
	case f.NewMode != 0 && f.NewMode != gitMode(mode):
		out.mode = withMode(mode, f.NewMode)
	}

	// The content.
	switch {
	case f.IsBinary:
		content, why, class, err := a.binary(f, isNew, old)
		if err != nil {
			return nil, err
		}
		if class != Binary {
			if class == Conflict && f.NewOID != "" && oidMatches(f.NewOID, old) && !isNew {
				class, why = AlreadyApplied, "the file is the one after the patch already"
				fr.isNewSide = true
			}
			return fail(class, "%s", why)
		}
		out.content = content
		fr.Class, fr.Applies = Binary, true
	default:
		if !a.text(f, fr, old, out) {
			if a.opts.Blob != nil && a.threeway(f, fr, old, out) {
				break
			}
			return nil, nil
		}
	}
	if isNew && f.headerCR && bytes.Contains(out.content, []byte("\r\n")) {
		// The whole diff was converted, so these are not meant.
		fr.Class, fr.Reason = CRLF, fmt.Sprintf("the diff has CRLF line endings throughout, so that the new file %s gets them too; convert the patch (dos2unix)", name)
	}
	if f.IsDelete && len(out.content) > 0 {
		return fail(Conflict, "the patch deletes %s, but leaves lines in it: the tree's file has more than the patch knows", f.Old)
	}
	if out.mode&fs.ModeSymlink != 0 && !f.IsDelete {
		target := string(out.content)
		if path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(name), target)) {
			fr.Notes = append(fr.Notes, fmt.Sprintf("the symbolic link leads out of the tree, to %q", target))
		}
	}
	if f.metadata() && len(f.Hunks) == 0 && !f.IsBinary && f.OldMode != f.NewMode && !isNew && !f.IsDelete && !f.IsRename && !f.IsCopy && gitMode(mode) == f.NewMode {
		// git warns and takes it; a person wants to know.
		fr.Class, fr.Reason = AlreadyApplied, fmt.Sprintf("%s has the new mode %o already", f.Old, f.NewMode)
	}
	if f.New == "" && !isNew {
		a.get(f.Old).wentAway, a.get(f.Old).out = true, nil
		return nil, nil
	}
	e := a.get(name)
	e.out, e.wentAway, e.willGo = out, false, false
	if f.IsRename {
		o := a.get(f.Old)
		o.out, o.wentAway, o.willGo = nil, true, false
	}
	return out, nil
}

func typeName(m uint32) string {
	switch m & modeType {
	case modeLink:
		return "a symbolic link"
	case modeGitlink:
		return "a submodule or folder"
	}
	return "a file"
}

// mayCreate says whether a header without git's extended lines may mean a new
// file: one hunk without old lines.
func (f *File) mayCreate() bool {
	return f.traditional && len(f.Hunks) == 1 && f.Hunks[0].OldLines == 0
}

// compareBase fills in the blob ids.
func (a *applier) compareBase(f *File, fr *FileResult, old []byte) {
	if f.OldOID == "" {
		return
	}
	fr.TreeOID = BlobID(old, max(len(f.OldOID), len(f.NewOID)))
	fr.Base = BaseDiffers
	if len(f.OldOID) >= 4 && strings.HasPrefix(fr.TreeOID, f.OldOID) {
		fr.Base = BaseMatch
	}
	fr.isNewSide = len(f.NewOID) >= 4 && strings.HasPrefix(fr.TreeOID, f.NewOID)
}

// BlobID is git's id of content, at least four digits of it; more than 40
// digits mean a repository with SHA-256.
func BlobID(content []byte, digits int) string {
	var h hash.Hash = sha1.New()
	if digits > 40 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	id := hex.EncodeToString(h.Sum(nil))
	if digits >= 4 && digits < len(id) {
		return id[:digits]
	}
	return id
}

// oidMatches compares an id, which may be abbreviated, with that of content. An
// abbreviated id is taken for one of SHA-1.
func oidMatches(oid string, content []byte) bool {
	return len(oid) >= 4 && BlobID(content, len(oid)) == oid
}

func nullOID(oid string) bool { return strings.Trim(oid, "0") == "" }

// missing is a file that the patch needs and the tree lacks.
func (a *applier) missing(f *File, fr *FileResult) (*outcome, error) {
	fr.Class, fr.Reason = MissingFile, fmt.Sprintf("%s is not in the tree", f.Old)
	for i := range f.Hunks {
		fr.Hunks = append(fr.Hunks, HunkResult{Header: f.Hunks[i].Header, Class: MissingFile})
	}
	if f.IsDelete {
		fr.gone = true
		return nil, nil
	}
	if f.IsRename {
		// Renamed already, with the new side in place?
		cur, mode, err := a.t.ReadFile(f.New)
		if err == nil && mode.IsRegular() {
			lines := splitLines(cur)
			present := 0
			for i, at := range a.presentAt(f, lines) {
				if at >= 0 {
					present++
					h := &fr.Hunks[i]
					h.Class, h.Present, h.PresentLine, h.FoundLine = AlreadyApplied, true, at+1, at+1
				}
			}
			places, _, err := a.locate(f, cur, lines, false, false)
			switch {
			case err != nil:
			case present == len(f.Hunks):
				fr.Class, fr.isNewSide = AlreadyApplied, true
				fr.Reason = fmt.Sprintf("%s is gone and %s has the new side already", f.Old, f.New)
			case present > 0 || allOK(places):
				fr.Class = PartiallyApplied
				fr.Reason = fmt.Sprintf("%s was renamed to %s already, with %d of %d hunks", f.Old, f.New, present, len(f.Hunks))
			}
		}
	}
	return nil, nil
}

// exists is a file that the patch creates and the tree has.
func (a *applier) exists(f *File, fr *FileResult, name string, isNew bool, old, cur []byte) (*outcome, error) {
	fr.Class = Conflict
	fr.Reason = fmt.Sprintf("%s is in the tree already, with other content", name)
	var want []byte
	known := true
	switch {
	case f.IsBinary:
		if known = f.binary != nil; known {
			var err error
			if want, err = f.binary.apply(old); err != nil {
				known = false
			}
		}
	case isNew:
		var b bytes.Buffer
		for i := range f.Hunks {
			for _, l := range f.Hunks[i].side(Add) {
				b.WriteString(l.full())
			}
		}
		want = b.Bytes()
	default:
		b := newBudget()
		lo := newLocator(old, splitLines(old), false, b)
		lo.byGit = true
		for i := range f.Hunks {
			if !lo.put(&f.Hunks[i], newPattern(&f.Hunks[i], false)).ok {
				known = false
				break
			}
		}
		if known {
			var err error
			if want, err = lo.result(); err != nil {
				known = false
			}
		}
		fr.Reason = fmt.Sprintf("%s, the new name of %s, is in the tree already", name, f.Old)
	}
	same := known && bytes.Equal(want, cur)
	for i := range f.Hunks {
		h := HunkResult{Header: f.Hunks[i].Header, Class: Conflict}
		if same {
			h.Class, h.Present, h.PresentLine = AlreadyApplied, true, 1
		}
		fr.Hunks = append(fr.Hunks, h)
	}
	switch {
	case same && isNew:
		fr.Class, fr.isNewSide = AlreadyApplied, true
		fr.Reason = fmt.Sprintf("%s is in the tree already, with the same content", name)
	case same:
		// A copy made already; of a rename the old name is still there too.
		if f.IsCopy {
			fr.Class, fr.isNewSide = AlreadyApplied, true
			fr.Reason = fmt.Sprintf("%s is in the tree already, with the same content", name)
		}
	case known && isNew && bytes.Equal(stripCR(want), stripCR(cur)):
		fr.Class = CRLF
		fr.Reason = fmt.Sprintf("%s is in the tree already and differs only in its line endings", name)
	case known && isNew:
		a.describeNew(fr, want, cur)
	}
	return nil, nil
}

// mostlyIn says whether at least half of the lines of want that say something
// are in cur too, and how many of how many.
func mostlyIn(want, cur []string) (found, total int) {
	index := newLineIndex(cur)
	for _, l := range want {
		if telling(l) {
			total++
			if index.has(strings.TrimSpace(l)) {
				found++
			}
		}
	}
	return found, total
}

// describeNew puts the first difference of a file that exists already into the
// hunk result.
func (a *applier) describeNew(fr *FileResult, want, cur []byte) {
	if len(fr.Hunks) == 0 {
		return
	}
	w, c := splitLines(want), splitLines(cur)
	if found, total := mostlyIn(w, c); total > 0 && 2*found >= total {
		fr.similar = true
		fr.Reason = fmt.Sprintf("%s is in the tree already, in another version: %d of %d lines are the same", fr.Path, found, total)
	}
	i := 0
	for i < len(w) && i < len(c) && w[i] == c[i] {
		i++
	}
	h := &fr.Hunks[0]
	h.FoundLine = i + 1
	h.Expected, h.Found = chomp(w[i:min(i+7, len(w))]), chomp(c[i:min(i+7, len(c))])
	h.Note = fmt.Sprintf("first difference in line %d", i+1)
}

func chomp(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimSuffix(l, "\n")
	}
	return out
}

// submodule judges a change of a submodule's commit. There is no index here,
// so nothing is changed; what git apply decides without one is whether the
// folder is there.
func (a *applier) submodule(f *File, fr *FileResult) (*outcome, error) {
	fr.Class = Submodule
	fr.Reason = fmt.Sprintf("changes the commit of the submodule %s, which is not a file; it is left alone", f.Path())
	for i := range f.Hunks {
		fr.Hunks = append(fr.Hunks, HunkResult{Header: f.Hunks[i].Header, Class: Submodule})
	}
	_, mode, err := a.t.ReadFile(f.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fr.Applies = f.IsNew
	case err != nil:
		return nil, err
	default:
		fr.Applies = !f.IsNew && mode.IsDir()
	}
	return &outcome{skip: true}, nil
}

// binary makes the new content of a binary patch, with git's checks.
func (a *applier) binary(f *File, isNew bool, old []byte) (content []byte, why string, class Class, err error) {
	if f.binary == nil {
		return nil, fmt.Sprintf("the diff says that the binary file %s differs, but not how; make it with git format-patch --binary", f.Path()), BinaryNoData, nil
	}
	full := func(s string) bool { return len(s) == 40 || len(s) == 64 }
	if !full(f.OldOID) || !full(f.NewOID) {
		return nil, fmt.Sprintf("the binary patch of %s needs full blob ids in its index line; make it with git format-patch --binary", f.Path()), Conflict, nil
	}
	if !isNew && !oidMatches(f.OldOID, old) {
		return nil, fmt.Sprintf("the binary patch was made for another content of %s (blob %.12s, the tree has %.12s)", f.Old, f.OldOID, BlobID(old, len(f.OldOID))), Conflict, nil
	}
	if nullOID(f.NewOID) {
		return nil, "", Binary, nil
	}
	content, err = f.binary.apply(old)
	if err != nil {
		return nil, fmt.Sprintf("the binary patch does not fit: %v", err), Conflict, nil
	}
	if !oidMatches(f.NewOID, content) {
		return nil, fmt.Sprintf("the binary patch of %s gives blob %.12s where it promises %.12s: its data is damaged", f.Path(), BlobID(content, len(f.NewOID)), f.NewOID), Corrupt, nil
	}
	return content, "", Binary, nil
}

// changes turns outcomes into overlay changes, in git's order: first
// everything that goes away, then everything that is written.
func changes(files []*File, outs []*outcome) []Change {
	var out []Change
	for i, f := range files {
		if outs[i] != nil && outs[i].skip {
			continue
		}
		if f.New == "" && outs[i] == nil || f.IsRename {
			out = append(out, Change{Path: f.Old, Deleted: true})
		}
	}
	for i, f := range files {
		o := outs[i]
		if o == nil || o.skip {
			continue
		}
		name := f.New
		if name == "" {
			name = f.Old
		}
		out = append(out, Change{Path: name, Content: o.content, Mode: o.mode})
	}
	return out
}

// conclude derives the class of the patch from its files and says whether a
// three-way merge makes all of it fit.
func (a *applier) conclude(files []*File, r *Result) (merged bool) {
	r.Applies = true
	var class Class
	already, open, gone := 0, 0, 0
	partial, zero, submodule, similar := false, false, false, false
	for i := range r.Files {
		fr := &r.Files[i]
		r.Applies = r.Applies && fr.Applies
		similar = similar || fr.similar
		switch fr.Class {
		case AlreadyApplied:
			already++
		case PartiallyApplied:
			partial = true
		case ZeroContext:
			zero = true
		case Submodule:
			submodule = true
		default:
			if fr.gone {
				gone++
			} else {
				open++
			}
		}
		if fr.Class != AlreadyApplied && fr.Class != PartiallyApplied {
			class = worse(class, fr.Class)
		}
		if fr.Reason != "" && !fr.Applies && r.Reason == "" {
			r.Reason = fr.Reason
		}
	}
	unsafe := class == UnsafePath
	switch {
	case unsafe, class == Corrupt:
		r.Class = class
	case r.Applies && already > 0 && open == 0:
		r.Class = AlreadyApplied // modes only
	case r.Applies && submodule:
		r.Class = Submodule
	case r.Applies && zero:
		r.Class = ZeroContext
	case r.Applies:
		r.Class = class
	case already > 0 && open == 0 && !partial && !zero && !submodule:
		r.Class = AlreadyApplied
		for i := range r.Files {
			if r.Files[i].gone {
				r.Files[i].Class = AlreadyApplied
				r.Files[i].Reason += ", and the patch deletes it"
			}
		}
		r.Reason = "everything that the patch changes is in the tree already"
		if why := direction(files, r); why != "" {
			r.Class = Reversed
			r.Reason = "the new side of the patch is what the tree has: it is reversed, or applied already; " + why
			r.Hint = "git apply -R would take it; make the diff again from old to new"
			for i := range r.Files {
				if r.Files[i].Class == AlreadyApplied {
					r.Files[i].Class = Reversed
				}
			}
		}
	case partial || already > 0 || similar && len(files) > 1:
		r.Class = PartiallyApplied
		all, _, present, _ := r.HunkCounts()
		r.Reason = fmt.Sprintf("the tree holds a part of the patch already: %d of %d hunks", present, all)
		if similar {
			r.Reason += ", and another version of a file that it creates"
		}
	case submodule && class == Submodule:
		r.Class = Submodule
	case zero && rank[class] >= rank[ZeroContext]:
		r.Class = ZeroContext
	default:
		r.Class = class
	}
	for i := range r.Files {
		if u := &r.Files[i]; unsafe && u.Class == UnsafePath {
			r.Reason = u.Reason
			break
		}
	}
	if exact, known := r.BaseExact(); known && !exact {
		r.Notes = append(r.Notes, "base is not exact: blob ids of the index lines are not those of the tree")
	}
	if r.Applies || a.opts.Blob == nil || unsafe {
		return false
	}
	merged = true
	for i := range r.Files {
		fr := &r.Files[i]
		switch {
		case fr.Applies, fr.ThreeWay == "clean":
		case fr.ThreeWay == "conflict":
			merged = false
			r.ThreeWay = "conflict"
		default:
			merged = false
			if r.ThreeWay == "" {
				r.ThreeWay = "no base blobs for 3-way"
			}
		}
	}
	if merged {
		r.ThreeWay = "clean"
	}
	return merged
}

// direction looks for signs that old and new side of a patch whose new side is
// in the tree are swapped. Content alone cannot tell that from a patch that
// was applied before, so each sign is named. It returns "" when none is found.
func direction(files []*File, r *Result) string {
	added, deleted, exact := 0, 0, true
	for i, f := range files {
		if strings.HasPrefix(f.rawOld, "b/") && strings.HasPrefix(f.rawNew, "a/") {
			return "its a/ and b/ prefixes are swapped, as git diff -R writes them"
		}
		if f.traditional {
			for _, s := range []string{".orig", "~", ".old", ".bak"} {
				if f.rawNew != devNull && strings.HasSuffix(f.rawNew, s) && !strings.HasSuffix(f.rawOld, s) {
					return "its new file is named " + f.rawNew
				}
			}
		}
		added += f.Added
		deleted += f.Deleted
		exact = exact && r.Files[i].isNewSide
	}
	if exact && deleted > added {
		return fmt.Sprintf("the tree is exactly its new side and it removes more (%d lines) than it adds (%d), so reversed is likely", deleted, added)
	}
	return ""
}
