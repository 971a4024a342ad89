// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"patchcheck/checks/console"
	"patchcheck/checks/guestlog"
	"patchcheck/patches/mail"
)

func (a *app) consoleCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "console FILE",
		Short: "Find crashes in a console log, and what else it says of a guest in trouble",
		Long: `Read a console log, dmesg, QEMU's stderr or what mount.nfs said, "-" for standard
input, and print the crashes of the kernel, the first one as the cause, then
troubles that are no crash: a guest out of memory, a transport that fails, a
server without a listener, a broken KVM. Exit code 1 when the kernel crashed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.read(args[0])
			if err != nil {
				return err
			}
			rep, err := console.Parse(bytes.NewReader(text), console.Options{})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			ds, err := guestlog.Scan(bytes.NewReader(text))
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				err := a.print(struct {
					console.Report
					Diagnoses []guestlog.Diagnosis `json:"diagnoses,omitempty"`
				}{rep, ds})
				if err == nil && rep.Crash {
					err = &exitError{code: exitFindings}
				}
				return err
			}
			for _, f := range console.Findings(rep) {
				at := ""
				if f.Where.Line > 0 {
					at = fmt.Sprintf("line %d: ", f.Where.Line)
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
	return cmd
}
