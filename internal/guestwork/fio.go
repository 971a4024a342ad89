// SPDX-License-Identifier: Apache-2.0

package guestwork

import (
	"context"
	"os"
	"strings"

	"patchcheck/internal/guestproto"
	"patchcheck/internal/proc"
)

// maxFioOutput bounds what is kept of fio's output, in bytes. A json+ document
// of one job with all its latency bins takes about 100 KiB.
const maxFioOutput = 32 << 20

// fio serves VerbFio. A job that fails is a result, not an error of the verb.
func (w *work) fio(ctx context.Context, r *guestproto.Fio, log func(string)) (*guestproto.FioResult, error) {
	if strings.TrimSpace(r.Job) == "" {
		return nil, usagef("the fio job is empty")
	}
	path, err := w.tool("fio", "fio")
	if err != nil {
		return nil, setupf("the plan has to ask for the image layer fio", "the guest has no fio")
	}
	job, err := os.CreateTemp("", "job-*.fio")
	if err != nil {
		return nil, withErrno(setupf("", "cannot write the fio job"), err)
	}
	defer os.Remove(job.Name())
	_, err = job.WriteString(r.Job + "\n")
	if cerr := job.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, withErrno(setupf("", "cannot write the fio job"), err)
	}
	version, err := runTool(ctx, "the fio layer of the image is broken", path, "--version")
	if err != nil {
		return nil, err
	}
	dir := r.Dir
	if dir == "" {
		dir = "/tmp"
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, ioError(err, true, "cannot make the folder %s for fio's files", dir)
	}
	var before, after *guestproto.Sample
	if r.Mount != "" {
		if before, err = w.sample(ctx, &guestproto.SampleRequest{Mount: r.Mount}, log); err != nil {
			return nil, err
		}
	}
	argv := append([]string{path, "--output-format=json+", "--eta=never"}, r.Args...)
	res, err := proc.Run(ctx, proc.Cmd{Argv: append(argv, job.Name()), Dir: dir, Env: toolEnv(), MaxOutput: maxFioOutput})
	if res.Exit < 0 {
		return nil, setupf("", "cannot start fio: %v", err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.Mount != "" {
		if after, err = w.sample(ctx, &guestproto.SampleRequest{Mount: r.Mount}, log); err != nil {
			return nil, err
		}
	}
	return &guestproto.FioResult{Output: string(res.Stdout), Stderr: string(res.Stderr), Exit: res.Exit, Version: version, ElapsedUS: res.Elapsed.Microseconds(),
		Before: before, After: after}, nil
}
