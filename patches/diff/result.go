// SPDX-License-Identifier: Apache-2.0

package diff

// Class says in one word what became of a patch, a file or a hunk.
type Class string

// The classes. Whether git apply takes the patch is Result.Applies; each
// class says what that usually is.
const (
	Clean            Class = "clean"             // taken, exactly where the hunk headers say
	Offset           Class = "offset"            // taken, the content matches at another line
	Ambiguous        Class = "ambiguous"         // taken, but the moved hunk fits in several places
	Binary           Class = "binary"            // taken, has a binary change with data
	Fuzz             Class = "fuzz"              // refused; GNU patch would take it by ignoring context
	Conflict         Class = "conflict"          // refused; the tree differs where the patch changes it
	AlreadyApplied   Class = "already_applied"   // refused; the new side of everything is in the tree
	PartiallyApplied Class = "partially_applied" // refused; the new side of some hunks is in the tree
	Reversed         Class = "reversed"          // refused; old and new side are swapped
	MissingFile      Class = "missing_file"      // refused; a file to change is not in the tree
	Corrupt          Class = "corrupt"           // refused; the diff itself cannot be read
	Empty            Class = "empty"             // refused; no change in it
	WhitespaceDamage Class = "whitespace_damage" // refused; fits when white space is ignored, or lines were wrapped
	CRLF             Class = "crlf"              // refused; line endings of patch and tree differ
	ZeroContext      Class = "zero_context"      // made with -U0; git refuses most of them
	BinaryNoData     Class = "binary_nodata"     // refused; "Binary files differ" and no data
	Submodule        Class = "submodule"         // changes the commit of a submodule
	UnsafePath       Class = "unsafe_path"       // refused; a name that leads out of the tree or into .git
)

// Base says whether a file of the tree is the one the diff was made against.
type Base string

// The outcomes of comparing a file's blob id with the diff's index line.
const (
	BaseMatch   Base = "match"
	BaseDiffers Base = "differs"
	BaseUnknown Base = "unknown" // no index line, or no file
)

// HunkResult is what became of one hunk. Lines are 1-based lines of the tree's
// file before the patch.
type HunkResult struct {
	Header    string `json:"header"`
	Class     Class  `json:"class"`
	Applies   bool   `json:"applies"`              // git apply finds its place (other hunks may still fail)
	Offset    int    `json:"offset"`               // lines between the place in the header and the one found, as git apply prints it
	Fuzz      int    `json:"fuzz,omitempty"`       // context lines that GNU patch would ignore
	FoundLine int    `json:"found_line,omitempty"` // where it fits, or the most similar place
	Others    []int  `json:"others,omitempty"`     // other places where it fits as well

	// Present: the new side of the hunk stands in the tree, at PresentLine.
	// Overtaken: neither side does, but what the hunk removes is gone or most
	// of what it adds is there, so later changes have gone over it. The four
	// numbers are the lines, blank and trivial ones aside, behind that.
	Present      bool `json:"present,omitempty"`
	PresentLine  int  `json:"present_line,omitempty"`
	Overtaken    bool `json:"overtaken,omitempty"`
	AddedFound   int  `json:"added_found,omitempty"`
	AddedTotal   int  `json:"added_total,omitempty"`
	RemovedFound int  `json:"removed_found,omitempty"`
	RemovedTotal int  `json:"removed_total,omitempty"`

	Expected []string `json:"expected,omitempty"` // old lines of the hunk, when it failed
	Found    []string `json:"found,omitempty"`    // lines of the tree at FoundLine, when it failed
	Note     string   `json:"note,omitempty"`
}

// FileResult is what became of one file.
type FileResult struct {
	Path    string       `json:"path"`
	OldPath string       `json:"old_path,omitempty"` // of a rename or copy
	Class   Class        `json:"class"`
	Applies bool         `json:"applies"`
	Base    Base         `json:"base"`
	WantOID string       `json:"want_oid,omitempty"` // old blob id of the index line
	TreeOID string       `json:"tree_oid,omitempty"` // blob id of the tree's file
	Reason  string       `json:"reason,omitempty"`   // why it failed, one sentence
	Hunks   []HunkResult `json:"hunks,omitempty"`
	Notes   []string     `json:"notes,omitempty"`

	// ThreeWay is the outcome of the three-way merge that was asked for:
	// "clean", "conflict", "no blob" or empty.
	ThreeWay string `json:"threeway,omitempty"`

	isNewSide bool // the tree's blob is the one after the patch
	gone      bool // the file is absent and the patch wants it so
	similar   bool // the patch creates the file, and the tree has another version of it
}

// Result is what became of one patch.
type Result struct {
	Class   Class        `json:"class"`
	Applies bool         `json:"applies"` // what git apply decides
	Reason  string       `json:"reason,omitempty"`
	Hint    string       `json:"hint,omitempty"`
	Line    int          `json:"line,omitempty"` // of the diff text, for a diff that cannot be read
	Hunk    string       `json:"hunk,omitempty"` // header of the damaged hunk, likewise
	Files   []FileResult `json:"files,omitempty"`
	Notes   []string     `json:"notes,omitempty"`

	// ThreeWay is set when a three-way merge was asked for and needed:
	// "clean" (the overlay returned holds the merge), "conflict" or "no base
	// blobs for 3-way". Class and Applies stay what they are without it.
	ThreeWay string `json:"threeway,omitempty"`
}

// Hunks counts the hunks of the patch: all, those that find their place,
// those whose new side is in the tree already, and those overtaken.
func (r *Result) HunkCounts() (all, apply, present, overtaken int) {
	for i := range r.Files {
		for j := range r.Files[i].Hunks {
			h := &r.Files[i].Hunks[j]
			all++
			switch {
			case h.Present:
				present++
			case h.Overtaken:
				overtaken++
			case h.Applies:
				apply++
			}
		}
	}
	return
}

// LooksMerged says whether the patch looks like an old one that the tree holds
// in a later form: nothing of it is new, and some of it stands as it was.
func (r *Result) LooksMerged() bool {
	if r.Class != PartiallyApplied && r.Class != Conflict && r.Class != MissingFile {
		return false
	}
	all, _, present, overtaken := r.HunkCounts()
	return present > 0 && 2*(present+overtaken) > all
}

// BaseExact says whether every file with an index line is the one that the
// diff was made against; known is false when no file has one.
func (r *Result) BaseExact() (exact, known bool) {
	exact = true
	for i := range r.Files {
		switch r.Files[i].Base {
		case BaseDiffers:
			exact, known = false, true
		case BaseMatch:
			known = true
		}
	}
	return exact && known, known
}

// rank orders failures for the class of a whole file or patch: the lowest
// decides, as it is the least repairable.
var rank = map[Class]int{
	UnsafePath: 0, Corrupt: 1, BinaryNoData: 2, MissingFile: 3, Conflict: 4,
	WhitespaceDamage: 5, CRLF: 6, Fuzz: 7, ZeroContext: 8, AlreadyApplied: 9, Submodule: 10,
	Ambiguous: 20, Offset: 21, Binary: 22, Clean: 30,
}

func worse(a, b Class) Class {
	if a == "" || rank[b] < rank[a] {
		return b
	}
	return a
}
