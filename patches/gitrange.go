// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchcheck/internal/proc"
	"patchcheck/patches/mail"
)

var (
	reLast = regexp.MustCompile(`^-\d{1,4}$`)
	// Revisions as people type them; nothing git could take for an option.
	reRev = regexp.MustCompile(`^[A-Za-z0-9_@^][A-Za-z0-9_@^~{}./:+=,!#%-]*$`)
)

// maxRange bounds the commits of a range: more is a wrong range.
const maxRange = 1000

func looksLikeRange(s string) bool {
	return reLast.MatchString(s) || len(s) < 500 && (reRev.MatchString(s) || strings.HasPrefix(s, "..") && reRev.MatchString(strings.TrimLeft(s, ".")))
}

// gitSafe keeps a repository's own configuration from running programs and
// from changing the shape of patches.
var gitSafe = []string{
	"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat",
	"-c", "log.showSignature=false", "-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.quotePath=true", "-c", "core.abbrev=12",
	"-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.orderFile=/dev/null", "-c", "diff.suppressBlankEmpty=false",
	"-c", "diff.submodule=short", "-c", "diff.context=3", "-c", "diff.interHunkContext=0", "-c", "diff.algorithm=default",
	"-c", "diff.renames=true", "-c", "diff.external=", "-c", "diff.ignoreSubmodules=none", "-c", "color.ui=never",
	"-c", "format.headers=", "-c", "format.suffix=.patch", "-c", "format.mboxrd=false", "-c", "format.encodeEmailHeaders=true",
	"-c", "format.noprefix=false", "-c", "protocol.allow=never",
}

func git(ctx context.Context, repo string, limit int64, args ...string) ([]byte, error) {
	env := append(proc.MinimalEnv(), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "GIT_ADVICE=0")
	res, err := proc.Run(ctx, proc.Cmd{Argv: append(append([]string{}, gitSafe...), args...), Dir: repo, Env: env, MaxOutput: int(limit) + 1})
	return res.Stdout, err
}

// gitRange reads commits of opts.Repo as git format-patch shows them.
func (in *input) gitRange(ctx context.Context, rev string, opts LoadOptions) error {
	var sel []string
	switch {
	case reLast.MatchString(rev):
		sel = []string{rev, "HEAD"}
	case strings.Contains(rev, ".."):
		sel = []string{rev}
	default:
		sel = []string{"-1", rev}
	}
	fail := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var pe *proc.Error
		switch {
		case errors.Is(err, exec.ErrNotFound):
			return &InputError{Source: rev, Reason: "is a git range, and git is not installed", Hint: "install git or give patch files"}
		case errors.As(err, &pe):
			msg := strings.TrimSpace(pe.Tail)
			switch {
			case strings.Contains(msg, "not a git repository"):
				return &InputError{Source: rev, Reason: fmt.Sprintf("is no file, and %s is no git repository", opts.Repo), Hint: "give patch files, or the path of the repository"}
			case strings.Contains(msg, "unknown revision"), strings.Contains(msg, "bad revision"), strings.Contains(msg, "ambiguous argument"):
				return &InputError{Source: rev, Reason: "is neither a file nor a revision that the repository " + opts.Repo + " knows", Hint: "check the name with git log"}
			}
			return &InputError{Source: rev, Reason: "git refuses the range", Err: errors.New(mail.Printable(clip(msg, 500)))}
		}
		return &InputError{Source: rev, Reason: "git cannot read the range", Err: err}
	}
	count := func(extra string) (int, error) {
		args := []string{"rev-list", "--count", extra}
		out, err := git(ctx, opts.Repo, 1<<20, append(append(args, sel...), "--")...)
		if err != nil {
			return 0, fail(err)
		}
		return strconv.Atoi(strings.TrimSpace(string(out)))
	}
	n, err := count("--no-merges")
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		return &InputError{Source: rev, Reason: "holds no commits", Hint: "the older end comes first: BASE..HEAD"}
	case n > maxRange:
		return &InputError{Source: rev, Reason: fmt.Sprintf("holds %d commits", n), Hint: fmt.Sprintf("a series has far fewer than %d; check the base", maxRange)}
	}
	args := []string{"format-patch", "--stdout", "--no-signature", "--numbered", "--no-cover-letter", "--no-attach", "--no-thread",
		"--no-base", "--no-notes", "--subject-prefix=PATCH", "--no-to", "--no-cc", "--no-add-header", "--no-from", "--no-color",
		"--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--full-index", "--binary", "--find-renames"}
	if n == 1 {
		args[3] = "--no-numbered"
	}
	out, err := git(ctx, opts.Repo, opts.MaxBytes, append(append(args, sel...), "--")...)
	if err != nil {
		return fail(err)
	}
	if int64(len(out)) > opts.MaxBytes {
		return &InputError{Source: rev, Reason: fmt.Sprintf("gives more than %d MiB of patches", opts.MaxBytes>>20), Hint: "give a shorter range"}
	}
	before := len(in.items)
	in.commits(rev, out)
	if len(in.items) == before {
		return &InputError{Source: rev, Reason: "holds no commits that change files"}
	}
	if first := in.items[before].m.Commit; first != "" {
		// A root commit has no parent; the series then has no base.
		if out, err := git(ctx, opts.Repo, 1<<20, "rev-parse", "--verify", "--quiet", first+"^"); err == nil {
			in.base = strings.TrimSpace(string(out))
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if merges, err := count("--merges"); err != nil {
		return err
	} else if merges > 0 && !reLast.MatchString(rev) && strings.Contains(rev, "..") {
		in.problems = append(in.problems, Problem{ID: "series.merge-left-out", Message: fmt.Sprintf("%s holds %d merge commits, which git format-patch leaves out", rev, merges)})
	}
	if in.keep != nil {
		in.keep(Kept{Source: rev, Git: true, Base: in.base, Problems: slices.Clone(in.problems), Data: out})
	}
	return nil
}

// commits reads what git format-patch wrote.
func (in *input) commits(rev string, data []byte) {
	for _, raw := range mail.Split(data) {
		in.add(rev, mail.Parse(raw, mail.Options{NoScissors: true}))
	}
}
