// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"patchcheck/checks"
	"patchcheck/checks/console"
	"patchcheck/checks/guestlog"
	"patchcheck/internal/kernel"
	"patchcheck/patches/mail"
)

func (a *app) consoleCmd() *cobra.Command {
	var asJSON, noSandbox bool
	var vmlinux, tree string
	cmd := &cobra.Command{
		Use:   "console FILE",
		Short: "Find crashes in a console log, and what else it says of a guest in trouble",
		Long: `Read a console log, dmesg, QEMU's stderr or what mount.nfs said, "-" for standard
input, and print the crashes of the kernel, the first one as the cause, then
troubles that are no crash: a guest out of memory, a transport that fails, a
server without a listener, a broken KVM. Exit code 1 when the kernel crashed.

With --vmlinux, the kernel of the log with its debug info, the frames of a crash
are decoded to file and line by scripts/decode_stacktrace.sh of the tree, which
runs without network and sees nothing of yours but these files. Frames that the
script cannot decode stay as they are, and a note says why.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if vmlinux == "" && (tree != "" || noSandbox) {
				return usageError("--tree and --no-sandbox are about --vmlinux, which is not given")
			}
			text, err := a.read(args[0])
			if err != nil {
				return err
			}
			rep, err := console.Parse(bytes.NewReader(text), console.Options{})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			undecoded, err := decodeReport(cmd.Context(), &rep, vmlinux, tree, noSandbox)
			if err != nil {
				return err
			}
			ds, err := guestlog.Scan(bytes.NewReader(text))
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				err := a.print(struct {
					console.Report
					Diagnoses []guestlog.Diagnosis `json:"diagnoses,omitempty"`
					Undecoded *checks.Finding      `json:"undecoded,omitempty"`
				}{rep, ds, undecoded})
				if err == nil && rep.Crash {
					err = &exitError{code: exitFindings}
				}
				return err
			}
			fs := console.Findings(rep)
			if undecoded != nil {
				fs = append(fs, *undecoded)
			}
			for i, f := range fs {
				at, line := "", f.Where.Line
				if i < len(rep.Reports) {
					line = rep.Reports[i].Line // Where may name a source line
				}
				if line > 0 {
					at = fmt.Sprintf("line %d: ", line)
				}
				if f.Where.File != "" {
					at += mail.Printable(f.Where.String()) + ": "
				}
				fmt.Fprintf(a.stdout, "%s: %s%s [%s]\n", f.Severity, at, mail.Printable(f.Message), f.ID)
				for i, l := range f.Evidence {
					if i == 20 {
						fmt.Fprintf(a.stdout, "    ... %d more lines\n", len(f.Evidence)-i)
						break
					}
					fmt.Fprintf(a.stdout, "    %s\n", mail.Printable(l))
				}
			}
			for _, d := range ds {
				f := d.Finding()
				fmt.Fprintf(a.stdout, "line %d: %s [%s]\n", d.Line, mail.Printable(f.Message), f.ID)
				if !d.Over && !d.Note && d.Hint != "" {
					fmt.Fprintf(a.stdout, "    %s\n", mail.Printable(d.Hint))
				}
			}
			if rep.Crash {
				return &exitError{code: exitFindings}
			}
			fmt.Fprintf(a.stdout, "no crash in %d lines\n", rep.Lines)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().StringVar(&vmlinux, "vmlinux", "", "kernel of the log, with debug info, to decode frames with")
	cmd.Flags().StringVar(&tree, "tree", "", "kernel tree whose script decodes (default: the folder of --vmlinux)")
	cmd.Flags().BoolVar(&noSandbox, "no-sandbox", false, "decode without bubblewrap: a stranger's vmlinux is then read unconfined")
	return cmd
}

// decodeReport decodes the frames of a report with a kernel of the user's. The
// finding says what could not be decoded; nil when all was.
func decodeReport(ctx context.Context, rep *console.Report, vmlinux, tree string, noSandbox bool) (*checks.Finding, error) {
	if vmlinux == "" {
		return nil, nil
	}
	if fi, err := os.Stat(vmlinux); err != nil || !fi.Mode().IsRegular() {
		return nil, usageError("--vmlinux %q is no file", vmlinux)
	}
	build := filepath.Dir(vmlinux)
	if tree == "" {
		tree = build
	}
	script, err := os.ReadFile(filepath.Join(tree, kernel.DecodeScript))
	if err != nil {
		return nil, usageError("%q has no %s; name the kernel's tree with --tree", tree, kernel.DecodeScript)
	}
	d := kernel.Decoder{Vmlinux: vmlinux, Script: script, NoSandbox: noSandbox}
	// Modules lie where they were built; other folders of the user's stay unseen.
	if _, err := os.Stat(filepath.Join(build, "modules.order")); err == nil {
		d.Modules = build
	}
	at, err := d.Decode(ctx, rep.Symbols(0))
	rep.Decode(at, nil)
	var de *kernel.DecodeError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &de):
		f := console.NotDecoded(de.Why, de.Said)
		return &f, nil
	}
	return nil, err
}
