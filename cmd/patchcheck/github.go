// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"patchcheck/internal/cache"
	"patchcheck/internal/forge"
	"patchcheck/internal/kernel"
	"patchcheck/internal/run"
	"patchcheck/internal/runfolder"
	"patchcheck/internal/view"
	"patchcheck/patches"
	"patchcheck/patches/mail"
)

// forgeFlags are shared by the commands that talk to GitHub.
type forgeFlags struct {
	api, login, name, comment string
}

func (f *forgeFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.api, "api", "", "base URL of the API (default $GITHUB_API_URL, else "+forge.DefaultAPI+"); Enterprise: https://HOST/api/v3/")
	fl.StringVar(&f.login, "login", "", "account that the token writes as, for an App's token: 'NAME[bot]'")
	fl.StringVar(&f.name, "name", "patchcheck", "name of the check")
	fl.StringVar(&f.comment, "comment", string(forge.CommentAuto), "comment on the pull request: auto (only where no check run can be written), never, always; one comment, changed in place")
	cmd.RegisterFlagCompletionFunc("comment", cobra.FixedCompletions([]cobra.Completion{"auto", "never", "always"}, cobra.ShellCompDirectiveNoFileComp))
}

// client makes a client with the token of the environment, and takes the token
// out of the environment: no program that is started from here on sees it.
func (a *app) client(f *forgeFlags) (*forge.Client, string, error) {
	switch forge.CommentMode(f.comment) {
	case forge.CommentAuto, forge.CommentNever, forge.CommentAlways:
	default:
		return nil, "", usageError("--comment %q is not known; there are: auto, never, always", f.comment)
	}
	api, tok := forge.FromEnv(f.api, os.Getenv)
	for _, v := range forge.TokenVars() {
		os.Unsetenv(v)
	}
	c, err := forge.New(forge.Options{API: api, Token: tok, Tool: version(), Login: f.login, Actions: inActions(), CacheDir: a.answersDir(),
		Log: func(s string) { fmt.Fprintln(a.stderr, "patchcheck: "+s) }})
	if err != nil {
		return nil, "", usageError("%v", err)
	}
	return c, api, nil
}

// answersDir is where answers of GitHub are kept, "" when there is no cache to
// write to: they only save requests.
func (a *app) answersDir() string {
	dir, err := a.cacheDir()
	if err != nil {
		return ""
	}
	c, err := cache.Open(dir)
	if err != nil {
		return ""
	}
	return c.Path("github")
}

func inActions() bool { return os.Getenv("GITHUB_ACTIONS") == "true" }

// guarded is the app with its output fit for a job of GitHub Actions, whose
// runner obeys commands in what is printed.
func (a *app) guarded() *app {
	if !inActions() {
		return a
	}
	b := *a
	b.stdout, b.stderr = forge.Guard(a.stdout), forge.Guard(a.stderr)
	return &b
}

func (a *app) githubCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "github",
		Short: "Check pull requests, and publish results at GitHub",
		Long: `Check pull requests as series, and publish results at GitHub.

The token is read from GITHUB_TOKEN or GH_TOKEN (for other hosts than
github.com: GH_ENTERPRISE_TOKEN), never from the command line. It is sent to the
API's own host only, and no program that patchcheck starts sees it. Reading
public repositories needs none.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.githubPRCmd(), a.githubMboxCmd(), a.githubPostCmd())
	return cmd
}

type githubPR struct {
	runFlags
	forgeFlags
	lintOnly, strict, noScripts, fetch, post bool
}

func (a *app) githubPRCmd() *cobra.Command {
	f := &githubPR{}
	cmd := &cobra.Command{
		Use:   "pr OWNER/REPO#N",
		Short: "Check a pull request as \"patchcheck run\" or lint does",
		Long: `Take the commits of a pull request as a series and check it. The pull request
can also be named by its page's address. Title and text of one with several
commits are its cover letter.

The commits are read through the API, not checked out. A run needs a tree that
they apply to: --tree names one, a clone that has the base branch; with
--fetch-base the base repository is fetched over https. The base is the commit
where the pull request branches off. --lint-only needs no tree.

With --post the result is published: as a check run with annotations where the
token may write one, else as a commit status. In GitHub Actions it also goes
into the job summary, with or without --post. Results of the same commit are
changed in place.

Exit codes are those of run and lint. A result that could not be published at
all is exit code 3, unless the result is worse than that.`,
		Example: `  patchcheck github pr octo/linux#7 --lint-only
  patchcheck github pr https://github.com/octo/linux/pull/7 --tree ~/linux
  GITHUB_TOKEN=... patchcheck github pr octo/linux#7 --fetch-base --post`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.guarded().checkPR(cmd.Context(), f, args[0]) },
	}
	f.treeFlags.add(cmd)
	f.forgeFlags.add(cmd)
	fl := cmd.Flags()
	f.what(fl)
	f.how(fl)
	fl.BoolVar(&f.o.BuildOnly, "build-only", false, "stop after the builds; boot nothing")
	fl.BoolVar(&f.lintOnly, "lint-only", false, "only lint")
	fl.BoolVar(&f.strict, "strict", false, "with --lint-only: also apply the rules that accepted patches often break")
	fl.BoolVar(&f.noScripts, "no-scripts", false, "with --lint-only: do not run the scripts of the tree")
	fl.BoolVar(&f.fetch, "fetch-base", false, "fetch the base branch of the pull request over https, as the tree")
	fl.BoolVar(&f.post, "post", false, "publish the result at the pull request's last commit")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) checkPR(ctx context.Context, f *githubPR, name string) error {
	c, pr, api, err := a.pullRequest(ctx, &f.forgeFlags, name)
	if err != nil {
		return err
	}
	a.describe(pr)
	mbox, err := c.Mails(ctx, pr)
	if err != nil {
		return err
	}
	mbox = forge.WithCover(pr, mbox, "")
	asked := f.base
	base, err := a.pullTree(ctx, c, f, pr)
	if err != nil {
		return err
	}
	t := forge.Target{Repo: pr.Repo, SHA: pr.Head, PR: pr.Number, Name: f.name, DetailsURL: jobURL(), Comment: forge.CommentMode(f.comment)}
	if f.lintOnly {
		return baseHint(a.lintPR(ctx, c, f, pr, mbox, t), pr, base, asked)
	}
	page := pullPage(pr, api)
	o, err := a.options(ctx, &f.runFlags, []string{page})
	if err != nil {
		return err
	}
	o.Kept, o.Base = []patches.Kept{{Source: page, Data: mbox}}, base
	o.Command = []string{"patchcheck", "github", "pr", pr.String()}
	o.View = view.New(a.stderr)
	rec, err := run.Run(ctx, o)
	exit := a.ended(rec, err, f.json)
	if err != nil {
		return baseHint(exit, pr, base, asked)
	}
	p, err := forge.FromRun(rec, t)
	if err != nil {
		return err
	}
	return a.publish(ctx, c, p, f.post, exit)
}

func (a *app) githubMboxCmd() *cobra.Command {
	f := &forgeFlags{}
	var to string
	cmd := &cobra.Command{
		Use:   "mbox OWNER/REPO#N",
		Short: "Write a pull request's commits as mails",
		Long: `Write the commits of a pull request as an mbox, with its title and text as the
cover letter and its base as base-commit, for the commands that take a series.`,
		Example: `  patchcheck github mbox octo/linux#7 --to series.mbox
  patchcheck github mbox octo/linux#7 | patchcheck lint -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" && inActions() {
				// The runner would obey commands in the patches, and to break them
				// up would change the patches.
				return usageError("in GitHub Actions a stranger's patch is not printed: name a file with --to")
			}
			return a.writeMbox(cmd.Context(), f, args[0], to)
		},
	}
	cmd.Flags().StringVar(&f.api, "api", "", "base URL of the API (default $GITHUB_API_URL, else "+forge.DefaultAPI+")")
	cmd.Flags().StringVar(&to, "to", "", "file to write (default: standard output)")
	f.comment = string(forge.CommentNever)
	return cmd
}

func (a *app) writeMbox(ctx context.Context, f *forgeFlags, name, to string) error {
	c, pr, _, err := a.pullRequest(ctx, f, name)
	if err != nil {
		return err
	}
	mbox, err := c.Mails(ctx, pr)
	if err != nil {
		return err
	}
	base, err := c.MergeBase(ctx, pr)
	if err != nil {
		return err
	}
	mbox = forge.WithCover(pr, mbox, base)
	// A commit message may name a base, too; it must not choose what the series
	// is compared with.
	s, err := patches.Load(ctx, []string{"-"}, patches.LoadOptions{Stdin: bytes.NewReader(mbox)})
	if err != nil {
		return err
	}
	if s.BaseCommit != base {
		return usageError("the text of a commit of %s names a base-commit of its own (%s), and the branch begins at %.12s: remove it from the message", pr, mail.Printable(s.BaseCommit), base)
	}
	if to == "" {
		_, err = a.stdout.Write(mbox)
		return err
	}
	if err := os.WriteFile(to, mbox, 0o644); err != nil {
		return usageError("%v", err)
	}
	return nil
}

// pullRequest looks a pull request up by its name.
func (a *app) pullRequest(ctx context.Context, f *forgeFlags, name string) (*forge.Client, *forge.PullRequest, string, error) {
	repo, num, host, err := forge.ParsePull(name)
	if err != nil {
		return nil, nil, "", usageError("%v", err)
	}
	c, api, err := a.client(f)
	if err != nil {
		return nil, nil, "", err
	}
	if host != "" && !forge.HostFits(host, api) {
		return nil, nil, "", usageError("%s is at %s, and the API at %s is another host's: set --api https://%s/api/v3/", name, host, api, host)
	}
	pr, err := c.PullRequest(ctx, repo, num)
	return c, pr, api, err
}

// pullPage is the address of a pull request's page.
func pullPage(pr *forge.PullRequest, api string) string {
	if u, err := url.Parse(pr.URL); err == nil && u.Scheme == "https" && forge.HostFits(u.Host, api) {
		return pr.URL
	}
	return "https://github.com/" + pr.Repo.String() + fmt.Sprintf("/pull/%d", pr.Number)
}

// describe tells what is looked at. All of it is printed text of a stranger.
func (a *app) describe(pr *forge.PullRequest) {
	var notes []string
	if pr.State != "open" {
		notes = append(notes, pr.State)
	}
	if pr.Draft {
		notes = append(notes, "draft")
	}
	switch {
	case pr.HeadRepo == "":
		notes = append(notes, "from a repository that was deleted")
	case pr.Fork:
		notes = append(notes, "from "+pr.HeadRepo)
	}
	s := ""
	if len(notes) > 0 {
		s = " (" + strings.Join(notes, ", ") + ")"
	}
	fmt.Fprintf(a.stderr, "patchcheck: %s%s: head %.12s, for %s\n", pr, s, pr.Head, mail.Printable(pr.Base))
}

// pullTree settles which tree a pull request is held against, and gives the
// base commit in it, "" for what the tree has.
func (a *app) pullTree(ctx context.Context, c *forge.Client, f *githubPR, pr *forge.PullRequest) (string, error) {
	conf, err := a.config(configTree(f.tree))
	if err != nil {
		return "", err
	}
	if f.fetch {
		if f.tree != "" {
			return "", usageError("--tree and --fetch-base both say which tree: leave one out")
		}
		u, err := url.Parse(pr.CloneURL)
		if err != nil || u.Scheme != "https" || u.User != nil || strings.ContainsAny(pr.Base, "#\n ") {
			return "", usageError("%s has no https address to fetch its base from (%q, branch %q): name a tree with --tree", pr.Repo, pr.CloneURL, pr.Base)
		}
		f.tree = "git+" + pr.CloneURL + "#" + pr.Base
	}
	spec := configured(conf, f.tree, kernelTreeHere())
	if spec == "" {
		if f.lintOnly {
			return "", nil
		}
		return "", usageError("a run of %s needs a tree: name a clone that has %s with --tree, or say --fetch-base", pr, mail.Printable(pr.Base))
	}
	if f.base != "" {
		return f.base, nil
	}
	if !strings.HasPrefix(spec, "git+") && !isGit(spec) {
		return "", nil // it is what it is, and "not exact" says so
	}
	base, err := c.MergeBase(ctx, pr)
	if err != nil {
		return "", err
	}
	f.base = base
	return base, nil
}

// isGit tells a repository, also a bare one.
func isGit(dir string) bool {
	for _, names := range [][]string{{".git"}, {"HEAD", "objects"}} {
		ok := true
		for _, n := range names {
			_, err := os.Stat(filepath.Join(dir, n))
			ok = ok && err == nil
		}
		if ok {
			return true
		}
	}
	return false
}

// baseHint says where the base of an error comes from that names --base,
// which the user did not give.
func baseHint(err error, pr *forge.PullRequest, base, asked string) error {
	var te *kernel.TreeError
	if base == "" || asked != "" || !errors.As(err, &te) || te.Infra {
		return err
	}
	return fmt.Errorf("%w\n%s branches off %s at %.12s: fetch %s into the tree, or name another base", err, pr, mail.Printable(pr.Base), base, mail.Printable(pr.Base))
}

func (a *app) lintPR(ctx context.Context, c *forge.Client, f *githubPR, pr *forge.PullRequest, mbox []byte, t forge.Target) error {
	started := time.Now()
	b := *a
	b.stdin = bytes.NewReader(mbox)
	l := &lintFlags{treeFlags: f.treeFlags, strict: f.strict, noScripts: f.noScripts, noSandbox: f.o.NoSandbox, jobs: f.o.Jobs}
	rep, err := b.lintReport(ctx, l, []string{"-"})
	if err != nil {
		return err
	}
	if rep.Series != nil {
		rep.Series.Sources = []string{pr.String()}
	}
	format := "text"
	if f.json {
		format = "json"
	}
	exit := a.showLint(rep, format)
	return a.publish(ctx, c, forge.FromLint(rep, t, started, time.Now()), f.post, exit)
}

// publish puts the result where it belongs and says where. exit is the
// result's own exit code; a result that reached nobody is not a good one.
func (a *app) publish(ctx context.Context, c *forge.Client, p forge.Publication, post bool, exit error) error {
	if path := os.Getenv("GITHUB_STEP_SUMMARY"); path != "" {
		text := p.Summary
		if p.Text != "" {
			text += "\n" + p.Text
		}
		if err := forge.AppendSummary(path, text); err != nil {
			fmt.Fprintf(a.stderr, "patchcheck: %v\n", err)
		}
	}
	if !post {
		return exit
	}
	out, err := c.Publish(ctx, p)
	notes := out.Notes
	if err != nil {
		notes = nil // the error has them
	}
	for _, n := range notes {
		fmt.Fprintf(a.stderr, "patchcheck: %s\n", mail.Printable(n))
	}
	if out.CheckRun != 0 {
		how := "written"
		if out.Updated {
			how = "updated"
		}
		fmt.Fprintf(a.stderr, "patchcheck: check run %s: %s, %d annotations: %s\n", how, p.Conclusion, len(p.Annotations), out.CheckURL)
	}
	if out.Status != "" {
		fmt.Fprintf(a.stderr, "patchcheck: commit status: %s\n", out.Status)
	}
	if out.CommentURL != "" {
		fmt.Fprintf(a.stderr, "patchcheck: comment: %s\n", out.CommentURL)
	}
	if err == nil || ctx.Err() != nil {
		return cmp.Or(ctx.Err(), exit)
	}
	fmt.Fprintf(a.stderr, "patchcheck: %s\n", mail.Printable(err.Error()))
	var ee *exitError
	if errors.As(exit, &ee) && ee.code == exitFindings {
		return exit
	}
	return &exitError{code: exitInfra}
}

// jobURL is the page of the job in GitHub Actions, "" elsewhere.
func jobURL() string {
	server, repo, id := os.Getenv("GITHUB_SERVER_URL"), os.Getenv("GITHUB_REPOSITORY"), os.Getenv("GITHUB_RUN_ID")
	if !inActions() || !strings.HasPrefix(server, "http") || repo == "" || id == "" {
		return ""
	}
	return server + "/" + repo + "/actions/runs/" + id
}

func (a *app) githubPostCmd() *cobra.Command {
	f := &forgeFlags{}
	var repo, sha string
	var num int
	cmd := &cobra.Command{
		Use:   "post RUN",
		Short: "Publish a run that is there already",
		Long: `Publish a run folder (or a run's id, or "latest") as the result for a commit,
as "github pr --post" does: check run or commit status, job summary, comment.
So the job that holds the token need not be the one that builds and boots a
stranger's code.

With --pr the run's patches are compared with those of the pull request, and a
run of other patches is refused.

Exit code: 0 published (whatever the verdict), 2 bad input, 3 not published.`,
		Example: `  patchcheck github post latest --repo octo/linux --sha 0123456789abcdef0123456789abcdef01234567
  patchcheck github post runs/RUN --repo octo/linux --sha $SHA --pr 7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.guarded().postRun(cmd.Context(), f, args[0], cmp.Or(repo, os.Getenv("GITHUB_REPOSITORY")), sha, num)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&repo, "repo", "", "repository, OWNER/REPO (default $GITHUB_REPOSITORY)")
	fl.StringVar(&sha, "sha", "", "commit that was tested, all 40 digits")
	fl.IntVar(&num, "pr", 0, "pull request of the commit")
	cmd.MarkFlagRequired("sha")
	return cmd
}

func (a *app) postRun(ctx context.Context, f *forgeFlags, name, repoName, sha string, num int) error {
	repo, err := forge.ParseRepo(repoName)
	if err != nil {
		return usageError("%v (--repo)", err)
	}
	if sha = strings.ToLower(sha); !forge.GoodSHA(sha) {
		return usageError("--sha %q is no full commit id", sha)
	}
	r, err := a.openRun(name)
	if err != nil {
		return err
	}
	c, _, err := a.client(f)
	if err != nil {
		return err
	}
	if num != 0 {
		pr, err := c.PullRequest(ctx, repo, num)
		if err != nil {
			return err
		}
		repo = pr.Repo
		if pr.Head != sha {
			// The result still belongs to its commit, but not into the thread.
			fmt.Fprintf(a.stderr, "patchcheck: %s has moved on to %.12s: no comment about %.12s\n", pr, pr.Head, sha)
			num = 0
		} else if err := a.samePatches(ctx, c, pr, r); err != nil {
			return err
		}
	}
	p, err := forge.FromRun(r, forge.Target{Repo: repo, SHA: sha, PR: num, Name: f.name, DetailsURL: jobURL(), Comment: forge.CommentMode(f.comment)})
	if err != nil {
		return err
	}
	return a.publish(ctx, c, p, true, nil)
}

// samePatches refuses a run of other patches than those of the pull request.
func (a *app) samePatches(ctx context.Context, c *forge.Client, pr *forge.PullRequest, r *runfolder.Run) error {
	s, err := c.Series(ctx, pr)
	if err != nil {
		return fmt.Errorf("cannot tell whether the run is of these patches: %w", err)
	}
	var theirs, ours []string
	for _, p := range s.Patches {
		theirs = append(theirs, fmt.Sprintf("%s (%d files)", p.Subject, len(p.Files)))
	}
	for _, p := range r.Series.Patches {
		ours = append(ours, fmt.Sprintf("%s (%d files)", p.Subject, p.Files))
	}
	if !slices.Equal(theirs, ours) {
		return usageError("run %s is of other patches than %s:\n  run:          %s\n  pull request: %s", r.ID, pr, mail.Printable(strings.Join(ours, "; ")), mail.Printable(strings.Join(theirs, "; ")))
	}
	return nil
}
