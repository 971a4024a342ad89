// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches"
	"patchcheck/patches/mail"
)

// MaintainerArgs are get_maintainer.pl's arguments before the name of a file
// that holds the patches. Only MAINTAINERS is asked: the history names people
// who changed a file once.
func MaintainerArgs() []string {
	return []string{"--no-git", "--no-git-fallback", "--no-git-blame", "--roles", "--no-rolestats"}
}

// Recipient is a line of get_maintainer.pl.
type Recipient struct {
	Name    string
	Addr    string
	Role    string // "maintainer", "reviewer", "list"
	Section string // title of the entry of MAINTAINERS; "" for the list of everything
}

// String names the recipient as a person would: "Name <addr>".
func (r Recipient) String() string {
	if r.Name == "" {
		return r.Addr
	}
	return r.Name + " <" + r.Addr + ">"
}

var (
	reRecipient = regexp.MustCompile(`^\s*(?:"?(.*?)"?\s*<([^<>\s]+@[^<>\s]+)>|([^\s()<>]+@[^\s()<>]+)) \((.*)\)\s*$`)
	// Titles of entries hold commas, too, so a role begins where a known one
	// does.
	reNextRole = regexp.MustCompile(`,(?:(?:chief )?(?:maintainer|penguin|supporter|odd fixer|reviewer)(?::|,|$)|(?:[a-z]+ )?(?:open |moderated |subscriber )?list(?::|,|$| \()|[a-z_]+:\d+/\d+=)`)
	reRole     = regexp.MustCompile(`^(?:((?:chief )?(?:maintainer|penguin|supporter|odd fixer|reviewer))|((?:[a-z]+ )?(?:open |moderated |subscriber )?list(?: \([^)]*\))?))(?:[^:]*)(?::(.*))?$`)
)

// ParseMaintainerOutput reads what get_maintainer.pl prints with --roles. Only
// the roles that MAINTAINERS gives count; ok is false when a line is none that
// the script prints.
func ParseMaintainerOutput(out []byte) (rs []Recipient, ok bool) {
	ok = true
	for l := range strings.Lines(string(out)) {
		l = strings.TrimSpace(l)
		if l == "" {
			continue
		}
		m := reRecipient.FindStringSubmatch(l)
		if m == nil {
			ok = false
			continue
		}
		r := Recipient{Name: m[1], Addr: m[2] + m[3]}
		for _, role := range splitRoles(m[4]) {
			g := reRole.FindStringSubmatch(role)
			switch {
			case g == nil || r.Role != "":
				continue
			case g[2] != "":
				r.Role = "list"
			case g[1] == "reviewer":
				r.Role = "reviewer"
			default:
				r.Role = "maintainer"
			}
			r.Section = strings.TrimSpace(g[3])
		}
		if r.Role == "" {
			continue // commit_signer, authored, blamed: the history's
		}
		rs = append(rs, r)
	}
	return rs, ok
}

func splitRoles(s string) []string {
	var out []string
	for {
		at := reNextRole.FindStringIndex(s)
		if at == nil {
			return append(out, strings.TrimSpace(s))
		}
		out = append(out, strings.TrimSpace(s[:at[0]]))
		s = s[at[0]+1:]
	}
}

// Addressed collects the To and Cc of the mails of a series, and whether there
// are any mails with such headers: a series in text form or from a git range
// has none, and nothing can be said about it.
func Addressed(s *patches.Series) (to []mail.Address, known bool) {
	ms := make([]*mail.Message, 0, len(s.Patches)+1)
	if s.Cover != nil {
		ms = append(ms, s.Cover.Mail)
	}
	for _, p := range s.Patches {
		ms = append(ms, p.Mail)
	}
	seen := map[string]bool{}
	for _, m := range ms {
		if m == nil {
			continue
		}
		for _, a := range slices.Concat(m.To, m.Cc) {
			known = true
			if k := strings.ToLower(a.Addr); !seen[k] {
				seen[k] = true
				to = append(to, a)
			}
		}
		// The sender has it, too.
		for _, a := range []mail.Address{m.From, m.Author} {
			if k := strings.ToLower(a.Addr); a.Addr != "" && !seen[k] {
				seen[k] = true
				to = append(to, a)
			}
		}
	}
	// git send-email adds the people of these trailers to Cc by itself.
	return to, known
}

// catchAll is the list for what has no other; nobody misses it.
const catchAll = "linux-kernel@vger.kernel.org"

// Recipients compares whom a series addresses with whom get_maintainer.pl
// names, and its addresses with .mailmap. Who is missing is one finding. It is
// a warning when no maintainer gets the series, or no list does, and a note
// otherwise: a file belongs to several entries, and nobody misses every
// reviewer of the widest.
func Recipients(s *patches.Series, want []Recipient, mm Mailmap) []checks.Finding {
	var out []checks.Finding
	to, known := Addressed(s)
	have := map[string]bool{}
	for _, a := range to {
		have[strings.ToLower(a.Addr)] = true
		have[strings.ToLower(mm.Current(a.Name, a.Addr))] = true
	}
	if known {
		out = append(out, stale(s, mm)...)
	}
	if !known || len(want) == 0 {
		return out
	}
	got := func(r Recipient) bool {
		return have[strings.ToLower(r.Addr)] || have[strings.ToLower(mm.Current(r.Name, r.Addr))]
	}
	var missing []Recipient
	owner, ownerGot, list, listGot := false, false, false, false
	for _, r := range want {
		if strings.EqualFold(r.Addr, catchAll) {
			continue
		}
		switch r.Role {
		case "maintainer":
			owner, ownerGot = true, ownerGot || got(r)
		case "list":
			list, listGot = true, listGot || got(r)
		}
		if !got(r) {
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return out
	}
	var people, lists []string
	var lines []string
	for _, r := range missing {
		role := r.Role
		if r.Section != "" {
			role += " of " + r.Section
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", r, role))
		if r.Role == "list" {
			lists = append(lists, r.Addr)
		} else {
			people = append(people, r.Name)
		}
	}
	msg := "not addressed:"
	if len(people) > 0 {
		msg += " " + some(people, 4)
	}
	if len(lists) > 0 {
		if len(people) > 0 {
			msg += ";"
		}
		msg += " " + some(lists, 4)
	}
	f := RuleRecipients.New(checks.Where{}, "%s", msg)
	f.Evidence = lines
	if !(owner && !ownerGot || list && !listGot) {
		f.Severity = checks.Note
	}
	return append(out, f)
}

func some(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// stale finds recipients whose address .mailmap replaces, in one finding. What
// people sign off with is theirs.
func stale(s *patches.Series, mm Mailmap) []checks.Finding {
	seen := map[string]bool{}
	var old, lines []string
	look := func(where string, as []mail.Address) {
		for _, a := range as {
			now := mm.Current(a.Name, a.Addr)
			if a.Addr == "" || strings.EqualFold(now, a.Addr) || seen[strings.ToLower(a.Addr)] {
				continue
			}
			seen[strings.ToLower(a.Addr)] = true
			old = append(old, a.Addr)
			lines = append(lines, fmt.Sprintf("%s: %s is now %s", where, a.Addr, now))
		}
	}
	ms := make([]*mail.Message, 0, len(s.Patches)+1)
	if s.Cover != nil {
		ms = append(ms, s.Cover.Mail)
	}
	for _, p := range s.Patches {
		ms = append(ms, p.Mail)
	}
	for _, m := range ms {
		if m != nil {
			look("To", m.To)
			look("Cc", m.Cc)
		}
	}
	if len(old) == 0 {
		return nil
	}
	f := RuleStaleAddress.New(checks.Where{}, "replaced by their owners: %s", some(old, 3))
	f.Evidence = lines
	return []checks.Finding{f}
}
