// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCmd writes manual pages from the same texts as --help.
func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Write the manual pages into a folder, or patchcheck(1) to standard output",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			// A fixed date keeps the pages the same for the same source.
			head := &doc.GenManHeader{Section: "1", Source: "patchcheck " + version(), Manual: "patchcheck"}
			if len(args) == 1 {
				if err := os.MkdirAll(filepath.Clean(args[0]), 0o755); err != nil {
					return usageError("%v", err)
				}
				return doc.GenManTree(root, head, args[0])
			}
			var b bytes.Buffer
			if err := doc.GenMan(root, head, &b); err != nil {
				return err
			}
			_, err := a.stdout.Write(b.Bytes())
			return err
		},
	}
}
