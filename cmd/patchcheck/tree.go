// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"patchcheck/internal/cache"
	"patchcheck/internal/kernel"
)

func (a *app) treeCmd() *cobra.Command {
	var base string
	var path, refresh bool
	cmd := &cobra.Command{
		Use:   "tree [SPEC]",
		Short: "Fetch a kernel tree into the cache, or say which one a spec means",
		Long: `Resolve a tree spec as run does and say what it is. Trees of the cache are
fetched when they are not there yet. --path prints only the folder of the
sources, for scripts; it must not be written to.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.cacheDir()
			if err != nil {
				return err
			}
			c, err := cache.Open(dir)
			if err != nil {
				return err
			}
			f := treeFlags{base: base}
			if len(args) == 1 {
				f.tree = args[0]
			}
			t, err := kernel.Resolve(cmd.Context(), c, f.resolve(), kernel.TreeOptions{Base: base, Refresh: refresh, Progress: func(l string) { fmt.Fprintln(a.stderr, l) }})
			if err != nil {
				return err
			}
			defer t.Close()
			src, err := t.Export(cmd.Context())
			if err != nil {
				return err
			}
			if path {
				fmt.Fprintln(a.stdout, src)
				return nil
			}
			fmt.Fprintf(a.stdout, "%s: linux %s\n  sources %s\n", t, t.Version, src)
			for _, n := range t.Notes {
				fmt.Fprintf(a.stdout, "  %s\n", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "base revision in a git tree")
	cmd.Flags().BoolVar(&path, "path", false, "print only the folder of the sources")
	cmd.Flags().BoolVar(&refresh, "refresh", false, "look for something newer")
	return cmd
}
