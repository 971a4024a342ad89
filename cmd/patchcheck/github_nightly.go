// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"patchcheck/internal/forge"
	"patchcheck/internal/nightly"
	"patchcheck/internal/runfolder"
)

// nightForge lets a night test pull requests and report on them.
type nightForge struct{ c *forge.Client }

// newNightForge gives the GitHub of the environment's token; nil without one,
// since a night that meets the limit of requests without a token would report
// that as a failure each time. The token leaves the environment.
func (a *app) newNightForge() (nightly.Forge, error) {
	api, tok := forge.FromEnv("", os.Getenv)
	for _, v := range forge.TokenVars() {
		os.Unsetenv(v)
	}
	if !tok.Set() {
		return nil, nil
	}
	c, err := forge.New(forge.Options{API: api, Token: tok, Tool: version(), Actions: inActions(), CacheDir: a.answersDir(),
		Log: func(s string) { fmt.Fprintln(a.stderr, "patchcheck: "+s) }})
	if err != nil {
		return nil, err
	}
	return &nightForge{c}, nil
}

// PullRequests lists the open ones with a label. One that cannot be read does
// not keep the others from being tested.
func (f *nightForge) PullRequests(ctx context.Context, repo, label string) ([]nightly.PullRequest, error) {
	r, err := forge.ParseRepo(repo)
	if err != nil {
		return nil, err
	}
	prs, err := f.c.PullRequests(ctx, r, label)
	if err != nil {
		return nil, err
	}
	var out []nightly.PullRequest
	for i := range prs {
		p := &prs[i]
		s, err := f.c.Series(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out = append(out, nightly.PullRequest{Repo: p.Repo.String(), Number: p.Number, Title: p.Title, Head: p.Head, Series: s, Err: err})
	}
	return out, nil
}

// Report publishes a run as a check run, or a commit status, of its own for
// each plan and tree. It does not comment: a night is no reason for a mail to
// everybody in the thread.
func (f *nightForge) Report(ctx context.Context, pr nightly.PullRequest, r *runfolder.Run) error {
	repo, err := forge.ParseRepo(pr.Repo)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("patchcheck %s on %s", r.Plan.Name, r.Tree.Spec)
	if len(name) > 100 {
		name = name[:100]
	}
	p, err := forge.FromRun(r, forge.Target{Repo: repo, SHA: pr.Head, PR: pr.Number, Name: name, Comment: forge.CommentNever})
	if err != nil {
		return err
	}
	_, err = f.c.Publish(ctx, p)
	return err
}
