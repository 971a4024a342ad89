// SPDX-License-Identifier: Apache-2.0

package patches

import "slices"

// Kept is one source as it was read: unpacked, and of a git range the mails
// that git made. With all of them the series can be read again when the
// sources are gone or have changed.
type Kept struct {
	Source   string    `json:"source"` // file, range or "-"
	Git      bool      `json:"git,omitempty"`
	Base     string    `json:"base,omitempty"`     // of a git range: parent of its first commit
	Problems []Problem `json:"problems,omitempty"` // all that git ranges gave so far
	Data     []byte    `json:"-"`
}

// Reload is Load of sources that were kept. sources are those that Load was
// given, for messages.
func Reload(kept []Kept, sources []string, opts LoadOptions) (*Series, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	in := &input{}
	for _, k := range kept {
		if k.Git {
			in.commits(k.Source, k.Data)
			if in.base = k.Base; len(k.Problems) > 0 {
				in.problems = slices.Clone(k.Problems)
			}
			continue
		}
		if err := in.bytes(k.Source, k.Data, opts); err != nil {
			return nil, err
		}
	}
	all, err := seriesOf(in, sources, opts)
	if err != nil {
		return nil, err
	}
	return choose(all, sources, opts)
}
