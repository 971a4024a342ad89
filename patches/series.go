// SPDX-License-Identifier: Apache-2.0

// Package patches owns the patch series: reading it from mails, mbox, files,
// standard input or a git range, and applying it to a tree. A series that is
// damaged is data (Problems), not an error.
package patches

import (
	"time"

	"patchcheck/patches/diff"
	"patchcheck/patches/mail"
)

// Series is an optional cover letter and the ordered patches of one version.
type Series struct {
	Title         string         `json:"title"`   // of the cover letter, else of the only patch
	Version       int            `json:"version"` // 1 when the subjects carry no vN
	RFC           bool           `json:"rfc,omitempty"`
	Resend        bool           `json:"resend,omitempty"`
	Tags          []string       `json:"tags,omitempty"`    // other subject-prefix words, as written: "net-next"
	Total         int            `json:"total"`             // patches the subjects promise
	Missing       []int          `json:"missing,omitempty"` // 1-based numbers promised and not found
	Cover         *Cover         `json:"cover,omitempty"`
	Patches       []*Patch       `json:"patches"` // in order of Index
	BaseCommit    string         `json:"base_commit,omitempty"`
	Prerequisites []Prerequisite `json:"prerequisites,omitempty"` // in the order written
	ChangeID      string         `json:"change_id,omitempty"`
	Problems      []Problem      `json:"problems,omitempty"`
	Sources       []string       `json:"sources"` // files, ranges or "-" it was read from

	thread  string   // anchor of its mails, see threads
	sources []string // sources of its own mails
}

// Cover is the cover letter.
type Cover struct {
	Subject   string        `json:"subject"` // without the [PATCH ...] prefix
	Author    mail.Address  `json:"author"`
	Date      time.Time     `json:"date,omitzero"`
	MessageID string        `json:"message_id,omitempty"`
	Body      string        `json:"body"` // decoded text, LF, whole
	Mail      *mail.Message `json:"-"`
}

// Patch is one patch of a series.
type Patch struct {
	Index      int          `json:"index"` // 1-based
	Total      int          `json:"total"`
	Subject    string       `json:"subject"`               // without the [PATCH ...] prefix
	RawSubject string       `json:"raw_subject,omitempty"` // header as decoded
	Author     mail.Address `json:"author"`                // in-body From: wins over the header, as in git am
	Date       time.Time    `json:"date,omitzero"`
	Commit     string       `json:"commit,omitempty"` // from a format-patch "From <id>" line or git
	MessageID  string       `json:"message_id,omitempty"`
	Message    string       `json:"message"` // commit message body below the subject, trailers included
	Trailers   []Trailer    `json:"trailers,omitempty"`
	// FromReplies are the trailers that replies give (LoadOptions.WithTrailers);
	// they are not part of Message.
	FromReplies []ReplyTrailer `json:"from_replies,omitempty"`
	Appendix    string         `json:"appendix,omitempty"` // between "---" and the diff
	Tail        string         `json:"tail,omitempty"`     // behind the diff: base information, signature
	Diff        []byte         `json:"-"`                  // decoded diff text, LF unless the file content itself has CR
	Files       []*diff.File   `json:"files"`
	Mail        *mail.Message  `json:"-"`
}

// Trailer is one "Key: value" line at the end of a commit message (git
// interpret-trailers(1)). Value keeps everything after the colon, also a
// "# 5.15+" or "(Documentation)" suffix, with continuation lines joined. Line
// is the 1-based line in Message.
type Trailer = mail.Trailer

// ReplyTrailer is a trailer given in a reply to the patch or to its cover letter.
type ReplyTrailer struct {
	Key       string       `json:"key"`
	Value     string       `json:"value"`
	From      mail.Address `json:"from"` // sender of the reply
	MessageID string       `json:"message_id,omitempty"`
	ToCover   bool         `json:"to_cover,omitempty"` // given for the whole series
}

// Prerequisite is a base-tree-information line (git format-patch --base) or a
// b4 dependency.
type Prerequisite struct {
	Kind  string `json:"kind"` // "patch-id", "change-id", "message-id"
	Value string `json:"value"`
}

// Problem is something wrong with the series as read.
type Problem struct {
	ID      string `json:"id"` // "series.missing-part"; see Rules
	Patch   int    `json:"patch,omitempty"`
	Message string `json:"message"`
	Fatal   bool   `json:"fatal,omitempty"` // run refuses such a series without --incomplete
}
