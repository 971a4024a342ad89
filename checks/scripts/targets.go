// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"path"
	"strings"

	"patchcheck/checks"
	"patchcheck/patches"
)

// Targets names the targets of make that check the touched files and that
// nothing here runs, in one finding.
func Targets(s *patches.Series) []checks.Finding {
	var order []string
	why := map[string]string{}
	add := func(target, file string) {
		if _, ok := why[target]; !ok {
			order = append(order, target)
			why[target] = file
		}
	}
	for _, p := range s.Patches {
		for _, f := range p.Files {
			n := f.Path()
			switch {
			case strings.HasPrefix(n, "Documentation/devicetree/bindings/") && path.Ext(n) == ".yaml":
				add("make dt_binding_check DT_SCHEMA_FILES="+strings.TrimPrefix(n, "Documentation/devicetree/bindings/"), n)
			case strings.HasPrefix(n, "Documentation/netlink/specs/"):
				add("make -C tools/net/ynl", n)
			case strings.HasPrefix(n, "Documentation/") && path.Ext(n) == ".rst":
				add("make htmldocs", n)
			case strings.Contains(n, "/boot/dts/"):
				add("make dtbs_check", n)
			case strings.HasPrefix(n, "tools/testing/selftests/"):
				if e := strings.Split(n, "/"); len(e) > 4 {
					add("make -C tools/testing/selftests TARGETS="+e[3], n)
				}
			case strings.HasPrefix(n, "tools/testing/kunit/") || strings.Contains(path.Base(n), "kunit") && path.Ext(n) == ".c":
				add("./tools/testing/kunit/kunit.py run", n)
			case path.Ext(n) == ".rs":
				add("make LLVM=1 rustfmtcheck", n)
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	f := RuleTargets.New(checks.Where{}, "not run here: %s", some(order, 3))
	for _, t := range order {
		f.Evidence = append(f.Evidence, t+"   # "+why[t])
	}
	return []checks.Finding{f}
}
