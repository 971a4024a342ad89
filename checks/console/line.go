// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLine bounds one line, in bytes: a console that sends no newline must not
// grow a buffer for ever. printk's own limit is 1 KiB.
const maxLine = 16 << 10

// line is one kernel or user-space line without what printk and loggers put
// before it.
type line struct {
	no     int    // 1-based number of the physical line
	text   string // without prefixes
	raw    string // printable, with prefixes: evidence
	ctx    string // printing context of CONFIG_PRINTK_CALLER: "T123", "C0"; "" unknown
	usec   int64  // printk time in microseconds, -1 unknown
	kernel bool   // had a printk prefix or a logger's "kernel:" tag
	user   bool   // had another program's logger tag
}

// visible removes terminal escape sequences and control characters except
// tab, and replaces bytes that are no UTF-8. Most lines need no change and
// are returned as they are.
func visible(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\t' || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == 0x1b:
			i = skipEscape(s, i+1)
			continue
		case c == '\t' || c >= 0x20 && c < 0x7f:
			b.WriteByte(c)
		case c >= 0x80:
			r, n := utf8.DecodeRuneInString(s[i:])
			// C1 controls act on terminals as escapes do; bidi
			// controls reorder what a reader sees.
			if r == utf8.RuneError || r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				b.WriteByte('?')
			} else {
				b.WriteString(s[i : i+n])
			}
			i += n
			continue
		}
		i++
	}
	return b.String()
}

// skipEscape returns the index after the escape sequence whose body starts at
// i (ECMA-48: CSI up to a final byte, OSC/DCS up to BEL or ST, else one byte).
func skipEscape(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '[':
		for i++; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 {
				return i
			}
		}
		return i
	case ']', 'P', '_', '^', 'X':
		// A string sequence that is never closed must not swallow what the
		// kernel wrote after it.
		for j := i + 1; j < len(s) && j < i+256; j++ {
			if s[j] == 0x07 {
				return j + 1
			}
			if s[j] == 0x1b && j+1 < len(s) && s[j+1] == '\\' {
				return j + 2
			}
		}
		return i + 1
	case '(', ')', '#', '%':
		return min(i+2, len(s))
	}
	return i + 1
}

// stamp parses a printk time stamp "[   12.345678]" at the start of s and
// returns its length and the time.
func stamp(s string) (n int, usec int64, ok bool) {
	if len(s) < 5 || s[0] != '[' {
		return 0, 0, false
	}
	i := 1
	for i < len(s) && s[i] == ' ' && i < 8 {
		i++
	}
	start := i
	var sec, frac, scale int64 = 0, 0, 1000000
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		sec = sec*10 + int64(s[i]-'0')
		i++
	}
	if i == start || i-start > 9 || i >= len(s) || s[i] != '.' {
		return 0, 0, false
	}
	i++
	start = i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		if scale > 1 {
			frac = frac*10 + int64(s[i]-'0')
			scale /= 10
		}
		i++
	}
	if i == start || i-start > 9 || i >= len(s) || s[i] != ']' {
		return 0, 0, false
	}
	return i + 1, sec*1000000 + frac*scale, true
}

// caller parses "[  T123]", "[   C0]" or "[T12@CPU1]" at the start of s.
func caller(s string) (ctx string, n int) {
	if len(s) < 4 || s[0] != '[' {
		return "", 0
	}
	i := 1
	for i < len(s) && s[i] == ' ' && i < 10 {
		i++
	}
	if i >= len(s) || s[i] != 'T' && s[i] != 'C' {
		return "", 0
	}
	start := i
	i++
	digits := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == digits {
		return "", 0
	}
	end := i
	if strings.HasPrefix(s[i:], "@CPU") {
		for i += 4; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		}
	}
	if i >= len(s) || s[i] != ']' {
		return "", 0
	}
	return s[start:end], i + 1
}

// androidTask parses "[4:  system_server: 3344]" or "(0)[12:comm]" after a
// time stamp.
func androidTask(s string) int {
	i := 0
	if len(s) > 3 && s[0] == '(' {
		if j := strings.IndexByte(s[:min(len(s), 6)], ')'); j > 0 {
			i = j + 1
		}
	}
	if i >= len(s) || s[i] != '[' {
		return 0
	}
	j := strings.IndexByte(s[i:min(len(s), i+60)], ']')
	if j < 4 || !strings.Contains(s[i:i+j], ":") || strings.Contains(s[i:i+j], "#") {
		return 0
	}
	for k := i + 1; k < len(s) && s[k] != ':'; k++ {
		if s[k] < '0' || s[k] > '9' {
			return 0
		}
	}
	return i + j + 1
}

// wallClock parses "[Mon Nov 30 13:00:00 2026] ", which dmesg -T prints, and
// returns its length.
func wallClock(s string) int {
	if len(s) < 26 || s[0] != '[' || s[25] != ']' || s[4] != ' ' || s[8] != ' ' || s[11] != ' ' || s[14] != ':' || s[17] != ':' || !strings.Contains(months, s[5:8]) {
		return 0
	}
	return 26
}

// record parses the head of a record of /dev/kmsg, "4,800,12000000,-;", at the
// start of s (kernel Documentation/ABI/testing/dev-kmsg).
func record(s string) (n int, usec int64) {
	semi := strings.IndexByte(s[:min(len(s), 80)], ';')
	if semi < 0 {
		return 0, 0
	}
	f := strings.Split(s[:semi], ",")
	if len(f) < 4 {
		return 0, 0
	}
	for _, d := range f[:3] {
		v, err := strconv.ParseInt(d, 10, 64)
		if err != nil || v < 0 {
			return 0, 0
		}
		usec = v
	}
	return semi + 1, usec
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// logger strips what a syslog daemon or journalctl puts before a message:
// "Nov 30 13:00:00 host kernel: " or an ISO 8601 time. tag is the program.
func logger(s string) (rest, tag string, ok bool) {
	if len(s) < 20 {
		return s, "", false
	}
	syslog := s[3] == ' ' && s[9] == ':' && s[12] == ':' && strings.Contains(months, s[:3])
	iso := s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[0] == '2'
	if !syslog && !iso {
		return s, "", false
	}
	i := 15
	if iso {
		if i = strings.IndexByte(s, ' '); i < 0 {
			return s, "", false
		}
		if s[19] == ',' { // dmesg --time-format iso; it prints no program
			return s[i+1:], "kernel", true
		}
	}
	head := s[i:min(len(s), i+120)]
	j := strings.Index(head, ": ")
	if j < 0 {
		return s, "", false
	}
	tag = head[:j]
	if k := strings.LastIndexByte(tag, ' '); k >= 0 {
		tag = tag[k+1:]
	}
	return s[i+j+2:], tag, true
}

// droppedMark is what console_unlock writes in place of lines that the ring
// buffer lost before the console could print them (kernel/printk/printk.c).
const droppedMark = " printk messages dropped **"

// split cuts one physical line into kernel lines and calls f for each. Two
// writers share a console without a lock, so a printk prefix may stand in the
// middle of what user space or another CPU was writing.
func split(no int, s string, f func(line), dropped func(n int64)) {
	if len(s) > maxLine {
		s = s[:maxLine]
	}
	s = visible(s)
	user := false
	for {
		cut := -1
		for i := 1; i < len(s); i++ {
			j := strings.IndexByte(s[i:], '[')
			if j < 0 {
				break
			}
			i += j
			if i+1 < len(s) && (s[i+1] == ' ' || s[i+1] >= '0' && s[i+1] <= '9') {
				if _, _, ok := stamp(s[i:]); ok {
					cut = i
					break
				}
			}
		}
		part := s
		if cut >= 0 {
			part = s[:cut]
		}
		l, ok := parseLine(no, part, dropped)
		l.user = l.user || user
		if ok || cut < 0 {
			f(l)
		} else {
			// Only a logger's tag: the message is what follows.
			user = l.user
		}
		if cut < 0 {
			return
		}
		s = s[cut:]
	}
}

// parseLine takes the prefixes off. ok is false when nothing but prefixes was
// there.
func parseLine(no int, s string, dropped func(int64)) (l line, ok bool) {
	l = line{no: no, raw: s, usec: -1}
	for {
		switch {
		case len(s) > 2 && s[0] == '<' && s[1] >= '0' && s[1] <= '9':
			n := 2
			for n < len(s) && n < 5 && s[n] >= '0' && s[n] <= '9' {
				n++
			}
			if n < len(s) && s[n] == '>' {
				s = s[n+1:]
				l.kernel = true
				continue
			}
		case l.usec < 0 && wallClock(s) > 0:
			s, l.kernel, l.usec = strings.TrimPrefix(s[wallClock(s):], " "), true, 0
			continue
		case len(s) > 8 && s[0] >= '0' && s[0] <= '9' && !l.kernel && s[1] != ' ':
			if n, usec := record(s); n > 0 {
				s, l.usec, l.kernel = s[n:], usec, true
				continue
			}
			if rest, tag, isLog := logger(s); isLog && !l.user {
				s = rest
				l.kernel, l.user = tag == "kernel", tag != "kernel"
				continue
			}
		case len(s) > 4 && s[0] == '[':
			if n, usec, isStamp := stamp(s); isStamp && l.usec < 0 {
				s, l.usec, l.kernel = s[n:], usec, true
				if n = androidTask(strings.TrimPrefix(s, " ")); n > 0 {
					s = strings.TrimPrefix(s, " ")[n:]
				}
				if ctx, n := caller(s); n > 0 {
					l.ctx, s = ctx, s[n:]
				}
				s = strings.TrimPrefix(s, " ")
				// A "<4>" or a second stamp may follow; a frame
				// "[<ffff>]" must stay as it is.
				continue
			}
		case len(s) > 8 && s[0] == '*' && s[1] == '*':
			if i := strings.Index(s, droppedMark); i > 0 && i < 40 {
				var n int64
				for _, c := range []byte(s[:i]) {
					if c >= '0' && c <= '9' && n < 1<<40 {
						n = n*10 + int64(c-'0')
					}
				}
				if dropped != nil {
					dropped(n)
				}
				s = strings.TrimPrefix(s[i+len(droppedMark):], " ")
				l.kernel = true
				continue
			}
		case len(s) > 20 && !l.kernel && !l.user:
			if rest, tag, isLog := logger(s); isLog {
				s = rest
				if tag == "kernel" {
					l.kernel = true
				} else {
					l.user = true
				}
				continue
			}
		}
		break
	}
	l.text = s
	return l, strings.TrimSpace(s) != ""
}

// prompt returns the length of a shell prompt at the start of s, 0 for none:
// what follows was typed, or is printed by somebody else after the prompt.
func prompt(s string) int {
	for i := 0; i < len(s) && i < 64; i++ {
		switch s[i] {
		case '#', '$', '>', '%', '+': // "+" is what "set -x" prints
			if i+1 < len(s) && s[i+1] == ' ' {
				return i + 2
			}
			if i+1 == len(s) {
				return i + 1
			}
		case ' ', '\t':
			return 0
		}
	}
	return 0
}
