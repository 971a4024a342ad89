// SPDX-License-Identifier: Apache-2.0

package diff

// Class says in one word what became of a patch, a file or a hunk.
type Class string

// The classes. Clean, Offset, Ambiguous and Binary mean that git apply takes
// the patch; the others, with the exceptions noted, that it does not.
const (
	Clean            Class = "clean"             // exactly where the hunk headers say
	Offset           Class = "offset"            // content matches at another line
	Fuzz             Class = "fuzz"              // GNU patch would take it with fuzz, git does not
	Ambiguous        Class = "ambiguous"         // taken, but the moved hunk fits in several places
	Conflict         Class = "conflict"          // the tree differs where the patch changes it
	AlreadyApplied   Class = "already_applied"   // the new side of everything is in the tree
	PartiallyApplied Class = "partially_applied" // the new side of some hunks is in the tree
	Reversed         Class = "reversed"          // old and new side are swapped
	MissingFile      Class = "missing_file"      // a file to change is not in the tree
	Corrupt          Class = "corrupt"           // the diff itself cannot be read
	Empty            Class = "empty"             // no change in it
	WhitespaceDamage Class = "whitespace_damage" // fits when white space is ignored, or lines were wrapped
	CRLF             Class = "crlf"              // line endings of patch and tree differ
	ZeroContext      Class = "zero_context"      // made with -U0; git refuses most of them
	Binary           Class = "binary"            // a binary patch with data, taken
	BinaryNoData     Class = "binary_nodata"     // "Binary files differ" and no data
	Submodule        Class = "submodule"         // changes a submodule's commit
	UnsafePath       Class = "unsafe_path"       // a name that leads out of the tree or into .git
)

// Base says whether a file of the tree is the one the diff was made against.
type Base string

// The outcomes of comparing a file's blob id with the diff's index line.
const (
	BaseMatch   Base = "match"
	BaseDiffers Base = "differs"
	BaseUnknown Base = "unknown" // no index line, or no file
)

// HunkResult is what became of one hunk.
type HunkResult struct {
	Header    string   `json:"header"`
	Class     Class    `json:"class"`
	Offset    int      `json:"offset"`               // lines between the place in the header and the one found
	FoundLine int      `json:"found_line,omitempty"` // 1-based line of the place found, or nearest, in the tree's file
	Expected  []string `json:"expected,omitempty"`   // old lines of the hunk, when it failed
	Found     []string `json:"found,omitempty"`      // lines of the tree at FoundLine, when it failed
}

// FileResult is what became of one file.
type FileResult struct {
	Path   string       `json:"path"`
	Class  Class        `json:"class"`
	Base   Base         `json:"base"`
	Reason string       `json:"reason,omitempty"` // why it failed, one sentence
	Hunks  []HunkResult `json:"hunks,omitempty"`
}

// Result is what became of one patch.
type Result struct {
	Class   Class        `json:"class"`
	Applies bool         `json:"applies"` // what git apply decides
	Reason  string       `json:"reason,omitempty"`
	Files   []FileResult `json:"files,omitempty"`
}
