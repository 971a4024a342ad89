// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/internal/proc"
)

// hookMark tells our hooks from those of others.
const hookMark = "# Installed by \"patchcheck hook install\"; \"patchcheck hook remove\" takes it out."

// hookKinds are the git hooks that can be written. Only findings stop git: a
// tool that does not work must not keep anyone from pushing.
var hookKinds = map[string]string{
	"pre-push": `remote=$1
zero=$(git hash-object --stdin </dev/null | tr 0-9a-f 0)
status=0
while read -r _ new ref old; do
	case $ref in refs/heads/*) ;; *) continue ;; esac
	[ "$new" = "$zero" ] && continue
	if [ "$old" = "$zero" ] || ! git cat-file -e "$old" 2>/dev/null; then
		first=$(git rev-list "$new" --not --remotes="$remote" | tail -n 1)
		[ -n "$first" ] || continue
		range=$first^..$new
	else
		range=$old..$new
	fi
	count=$(git rev-list --count --no-merges "$range" 2>/dev/null) || continue
	[ "$count" -gt 0 ] && [ "$count" -le 200 ] || continue
	"$patchcheck" lint "$range" </dev/null >&2
	[ $? -eq 1 ] && status=1
done
[ $status -eq 0 ] || echo "patchcheck: push anyway with: git push --no-verify" >&2
exit $status
`,
	"sendemail-validate": `"$patchcheck" lint --part "$1" </dev/null >&2
[ $? -eq 1 ] || exit 0
echo "patchcheck: send anyway with: git send-email --no-validate" >&2
exit 1
`,
}

func (a *app) hookCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Have git lint before a push or before mails are sent",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	var kind string
	install := &cobra.Command{
		Use:   "install",
		Short: "Write the hook into the repository you are in; a hook of someone else stays",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.hookInstall(cmd.Context(), kind) },
	}
	remove := &cobra.Command{
		Use:   "remove",
		Short: "Remove the hook again",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.hookRemove(cmd.Context(), kind) },
	}
	for _, c := range []*cobra.Command{install, remove} {
		c.Flags().StringVar(&kind, "kind", "pre-push", "which hook: "+strings.Join(sortedKeys(hookKinds), ", "))
	}
	cmd.AddCommand(install, remove)
	return cmd
}

// hookFile is the place of a hook in the repository around the working
// directory, wherever its configuration puts hooks.
func hookFile(ctx context.Context, kind string) (string, error) {
	if !slices.Contains(sortedKeys(hookKinds), kind) {
		return "", usageError("--kind %q is not known; there are: %s", kind, strings.Join(sortedKeys(hookKinds), ", "))
	}
	res, err := proc.Run(ctx, proc.Cmd{Argv: []string{"git", "rev-parse", "--git-path", "hooks"}})
	if err != nil {
		return "", usageError("this is no git repository: go into your kernel repository first")
	}
	dir, err := filepath.Abs(strings.TrimSpace(string(res.Stdout)))
	return filepath.Join(dir, kind), err
}

func (a *app) hookInstall(ctx context.Context, kind string) error {
	name, err := hookFile(ctx, kind)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(name); err == nil {
			return usageError("%s is a link to nowhere; nothing was changed", name)
		}
	case err != nil:
		return usageError("cannot read %s: %v", name, err)
	case !strings.Contains(string(old), hookMark):
		return usageError("%s exists and is not ours; nothing was changed. To have both, call patchcheck in it:\n\n%s", name, hookKinds[kind])
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	text := "#!/bin/sh\n" + hookMark + "\npatchcheck=" + shellQuote(exe) + "\n[ -x \"$patchcheck\" ] || patchcheck=patchcheck\n" + hookKinds[kind]
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return usageError("%v", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".patchcheck-hook-")
	if err != nil {
		return usageError("%v", err)
	}
	_, err = tmp.WriteString(text)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	fmt.Fprintf(a.stdout, "installed %s\n", name)
	return nil
}

func (a *app) hookRemove(ctx context.Context, kind string) error {
	name, err := hookFile(ctx, kind)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(a.stdout, "there is no %s\n", name)
		return nil
	case err != nil:
		return usageError("cannot read %s: %v", name, err)
	case !strings.Contains(string(old), hookMark):
		return usageError("%s is not ours; nothing was removed", name)
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("cannot remove the hook: %w", err)
	}
	fmt.Fprintf(a.stdout, "removed %s\n", name)
	return nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
