// SPDX-License-Identifier: Apache-2.0

package console

import (
	"io"
	"strings"
)

// Crash is one report of the kernel.
type Crash struct {
	Class Class  `json:"class"`
	Title string `json:"title"`          // stable name: kind and function
	Func  string `json:"func,omitempty"` // function at fault, canonical; "" unknown

	// Fingerprint joins the first five functions of the trace by ":"; names
	// with a compiler's suffix are left out, since they come and go.
	Fingerprint string `json:"fingerprint,omitempty"`

	Line int    `json:"line"`           // 1-based line of the header
	Time string `json:"time,omitempty"` // printk time of the header, seconds: "12.345678"
	CPU  string `json:"cpu,omitempty"`
	Comm string `json:"comm,omitempty"` // task that was running
	PID  string `json:"pid,omitempty"`

	Count       int    `json:"count"`                 // how often this title came
	LastLine    int    `json:"last_line,omitempty"`   // line of the last repeat
	Consequence bool   `json:"consequence,omitempty"` // probably caused by an earlier report
	Truncated   bool   `json:"truncated,omitempty"`   // the log ended within the report
	Tainted     string `json:"tainted,omitempty"`     // taint flags it was printed with
	Suspect     string `json:"suspect,omitempty"`     // why it may be false
	Boot        string `json:"boot,omitempty"`        // a panic that says why the guest did not boot

	Frames []Frame   `json:"frames,omitempty"` // the trace to look at, innermost first
	At     *Position `json:"at,omitempty"`     // the source line to look at first; nil before Decode
	// Text holds the report's lines as logged, escapes neutralised: evidence.
	// Decode adds file and line to its frames.
	Text []string `json:"text,omitempty"`
	Last []string `json:"last,omitempty"` // text of the last repeat, when there was one
}

// Event is something the console told that is no crash.
type Event struct {
	Kind  string `json:"kind"` // Kind* constants
	Line  int    `json:"line"`
	Count int    `json:"count"`
	Text  string `json:"text"`
}

// Kinds of events.
const (
	KindOOM        = "oom"         // the OOM killer shot a task: the guest is too small
	KindAllocFail  = "alloc-fail"  // page allocation failure
	KindBoot       = "boot"        // kernel banner
	KindBootFail   = "boot-fail"   // root or init could not be had
	KindLeakNotice = "leak-notice" // kmemleak found candidates; its file has the reports
	KindTestFail   = "test-fail"   // KTAP "not ok" of a KUnit test
	KindPowerDown  = "power-down"
)

// Report is what a whole console log says.
type Report struct {
	Crash bool   `json:"crash"`
	Class Class  `json:"class"`
	Title string `json:"title"`

	Reports   []Crash `json:"reports"` // in order of their first line; the first is the cause
	Events    []Event `json:"events,omitempty"`
	Truncated bool    `json:"truncated"`           // the log ended within a report
	Dropped   int64   `json:"dropped"`             // printk messages that the console never got
	BootFail  string  `json:"boot_fail,omitempty"` // why the guest did not reach its init, with the way out
	Boots     int     `json:"boots"`               // kernel banners seen
	Lines     int     `json:"lines"`
}

// Options tell what the text cannot.
type Options struct {
	// Slow says that the guest was emulated or the host overloaded: then
	// watchdogs of time are suspect. The text goes into Crash.Suspect.
	Slow string
	// KeepLines bounds the lines kept for each crash, 0 means 300.
	KeepLines int
}

// Parse reads a console log to its end. An error is the reader's; the report
// of what came before it is valid.
func Parse(r io.Reader, o Options) (Report, error) {
	d := NewDetector(o)
	_, err := io.Copy(d, r)
	d.Close()
	return d.Report(), err
}

// bootFailure explains a panic that struck before user space ran, "" for
// others.
func bootFailure(why string) string {
	switch {
	case strings.HasPrefix(why, "VFS: Unable to mount root fs"):
		return "the kernel found no root file system: check that the initramfs was given and that CONFIG_BLK_DEV_INITRD and its decompressor are in"
	case strings.HasPrefix(why, "Requested init"):
		return "the init named on the command line could not be run: check that it is in the image, static or with its loader, and that the file system which holds it was mounted"
	case strings.HasPrefix(why, "No working init found"):
		return "the image holds no init that could be run: check CONFIG_BINFMT_ELF and the image"
	case strings.HasPrefix(why, "Attempted to kill init"):
		return "init ended: the last lines before the panic say why"
	}
	return ""
}
