// SPDX-License-Identifier: Apache-2.0

package patches

import "strings"

// InputError is input that gives no series: not a patch, empty, binary junk,
// a range that git does not know. The command line maps it to exit code 2.
type InputError struct {
	Source string // file, range or "-" as given
	Reason string // what is wrong with it
	Hint   string // the way out
	Err    error  // cause, may be nil
}

func (e *InputError) Error() string {
	src := e.Source
	if src == "-" {
		src = "standard input"
	}
	var b strings.Builder
	if src != "" {
		b.WriteString(src + ": ")
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

func (e *InputError) Unwrap() error { return e.Err }
