// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"fmt"
	"strings"
	"testing"
)

// short renders what the parser made of a diagnostic on one line.
func short(d Diagnostic) string {
	s := fmt.Sprintf("%s %s %s:%d:%d", d.Tool, d.Severity, d.Path, d.Line, d.Col)
	if d.Flag != "" {
		s += " " + d.Flag
	}
	if d.Function != "" {
		s += " in " + d.Function
	}
	if d.Object != "" {
		s += " of " + d.Object
	}
	if len(d.Notes) > 0 {
		s += fmt.Sprintf(" +%d", len(d.Notes))
	}
	msg, _ := splitFlag(d.Message)
	s += " | " + msg
	if d.Source != "" {
		s += " | " + d.Source
	}
	return s
}

func shorts(l Log) []string {
	var out []string
	for _, d := range l.Diagnostics {
		out = append(out, short(d))
	}
	return out
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, log string
		want      []string
	}{
		{"gcc", `
  CC      fs/demo/a.o
fs/demo/a.c: In function 'alpha':
fs/demo/a.c:12:6: warning: unused variable 'n' [-Wunused-variable]
   12 |         int n;
      |             ^
At top level:
fs/demo/a.c:40:12: warning: 'beta' defined but not used [-Wunused-function]
cc1: some warnings being treated as errors
`, []string{
			"cc warning fs/demo/a.c:12:6 -Wunused-variable in alpha of fs/demo/a.o | unused variable 'n' | int n;",
			"cc warning fs/demo/a.c:40:12 -Wunused-function of fs/demo/a.o | 'beta' defined but not used",
		}},
		{"gcc macro in header", `
In file included from include/linux/demo.h:5,
                 from include/linux/deeper.h:10,
                 from fs/demo/a.c:3:
fs/demo/a.c: In function 'gamma':
include/linux/demo.h:57:2: warning: value computed is not used [-Wunused-value]
   57 |  ((x))
      |  ~^~~~
fs/demo/a.c:19:5: note: in expansion of macro 'DEMO'
   19 |     DEMO(x);
      |     ^~~~
`, []string{"cc warning include/linux/demo.h:57:2 -Wunused-value in gamma of fs/demo/a.o +1 | value computed is not used | ((x))"}},
		{"werror", "fs/a.c:1:2: error: 'x' undeclared (first use in this function) [-Werror=foo-bar]\nfs/a.c:2:2: error: y [-Werror,-Wbaz]\nfs/a.c:3:2: warning: z [-Wformat=]\n", []string{
			"cc error fs/a.c:1:2 -Wfoo-bar of fs/a.o | 'x' undeclared (first use in this function)",
			"cc error fs/a.c:2:2 -Wbaz of fs/a.o | y",
			"cc warning fs/a.c:3:2 -Wformat of fs/a.o | z",
		}},
		{"gcc inlined", `
In function 'memcpy',
    inlined from 'fill' at fs/demo/a.c:33:2,
    inlined from 'outer' at fs/demo/a.c:44:2:
include/linux/fortify.h:20:3: error: call to '__overflow' declared with attribute error: too long
`, []string{"cc error include/linux/fortify.h:20:3 in outer | call to '__overflow' declared with attribute error: too long"}},
		{"clang", `
In file included from fs/demo/a.c:3:
In file included from include/linux/deeper.h:10:
include/linux/demo.h:57:2: warning: variable 'v' is uninitialized when used here [-Wuninitialized]
        use(v);
            ^
include/linux/demo.h:50:7: note: initialize the variable 'v' to silence this warning
2 warnings generated.
1 warning and 1 error generated.
`, []string{"cc warning include/linux/demo.h:57:2 -Wuninitialized of fs/demo/a.o +1 | variable 'v' is uninitialized when used here | use(v);"}},
		{"sparse", `
  CC      net/demo/x.o
net/demo/x.c: In function 'f':
net/demo/x.c:5:1: warning: gone [-Wgone]
  CHECK   net/demo/x.c
net/demo/x.c:14:21: warning: incorrect type in assignment (different base types)
net/demo/x.c:14:21:    expected restricted __be32 [usertype] v
net/demo/x.c:14:21:    got unsigned int
net/demo/x.c:9:6: warning: context imbalance in 'f' - wrong count at exit
net/demo/x.c: note: in included file (through include/linux/one.h, include/linux/two.h):
include/linux/demo.h:8:1: error: bad constant expression
`, []string{
			"cc warning net/demo/x.c:5:1 -Wgone in f of net/demo/x.o | gone",
			"sparse warning net/demo/x.c:14:21 of net/demo/x.o +2 | incorrect type in assignment (different base types)",
			"sparse warning net/demo/x.c:9:6 of net/demo/x.o | context imbalance in 'f' - wrong count at exit",
			"sparse error include/linux/demo.h:8:1 of net/demo/x.o | bad constant expression",
		}},
		{"sparse by the robot", `
>> net/demo/x.c:14:21: sparse: sparse: incorrect type in argument 1 (different base types) @@     expected int @@     got restricted __be32 @@
   net/demo/x.c:14:21: sparse:     expected int
   net/demo/x.c:14:21: sparse:     got restricted __be32
`, []string{"sparse warning net/demo/x.c:14:21 of net/demo/x.o +2 | incorrect type in argument 1 (different base types) @@     expected int @@     got restricted __be32 @@"}},
		{"kernel-doc twice", `
  CC      fs/demo/a.o
Warning: fs/demo/a.c:64 function parameter 'ret' not described in 'alpha'
Warning: fs/demo/a.c:64 function parameter 'ret' not described in 'alpha'
fs/demo/b.c:12: warning: expecting prototype for beta(). Prototype was for bet() instead
`, []string{
			"kernel-doc warning fs/demo/a.c:64:0 of fs/demo/a.o | function parameter 'ret' not described in 'alpha'",
			"kernel-doc warning fs/demo/b.c:12:0 of fs/demo/b.o | expecting prototype for beta(). Prototype was for bet() instead",
		}},
		{"modpost", `
  MODPOST Module.symvers
ERROR: modpost: "demo_register" [fs/demo/demo.ko] undefined!
WARNING: modpost: vmlinux: section mismatch in reference: demo_init+0x1c (section: .text) -> demo_setup (section: .init.text)
WARNING: vmlinux.o(.text+0x1234): Section mismatch in reference from the function old() to the function .init.text:setup()
WARNING: vmlinux.o is missing.
`, []string{
			`modpost error :0:0 of Module.symvers | "demo_register" [fs/demo/demo.ko] undefined!`,
			"modpost warning :0:0 in demo_init of Module.symvers | vmlinux: section mismatch in reference: demo_init+0x1c (section: .text) -> demo_setup (section: .init.text)",
			"modpost warning :0:0 in old of Module.symvers | vmlinux.o(.text+0x1234): Section mismatch in reference from the function old() to the function .init.text:setup()",
		}},
		{"objtool", "fs/demo/a.o: warning: objtool: fill.isra.0()+0x335: unreachable instruction\nvmlinux.o: error: objtool: other+0x1f: return with modified stack frame\n", []string{
			"objtool warning fs/demo/a.o:0:0 in fill of fs/demo/a.o | fill.isra.0()+0x335: unreachable instruction",
			"objtool error vmlinux.o:0:0 in other of vmlinux.o | other+0x1f: return with modified stack frame",
		}},
		{"ld", "sh4-linux-ld: fs/demo/a.o: in function `alpha.part.0':\na.c:(.text+0x1c): undefined reference to `zeta'\nsh4-linux-ld: a.c:(.text+0x20): undefined reference to `zeta'\nld: fs/demo/b.o:(.rodata+0x84): undefined reference to `eta'\nfs/demo/b.c:42: undefined reference to `theta'\nld: b.c:(.text+0x9): more undefined references to `eta' follow\nld: warning: orphan section `.x' from `fs/demo/b.o'\nld.lld: error: undefined symbol: iota\n>>> referenced by b.c:12\n", []string{
			"ld error :0:0 in alpha of fs/demo/a.o | undefined reference to `zeta' in .text",
			"ld error :0:0 in alpha of fs/demo/a.o | undefined reference to `zeta' in .text",
			"ld error :0:0 of fs/demo/b.o | undefined reference to `eta' in .rodata",
			"ld error fs/demo/b.c:42:0 in alpha of fs/demo/a.o | undefined reference to `theta'",
			"ld warning :0:0 | orphan section `.x' from `fs/demo/b.o'",
			"ld error :0:0 +1 | undefined symbol: iota",
		}},
		{"kconfig", `
WARNING: unmet direct dependencies detected for DEMO
  Depends on [n]: NET [=y] && OTHER [=n]
  Selected by [y]:
  - THIRD [=y]
fs/demo/Kconfig:12:warning: config symbol defined without type
.config:77:warning: symbol value 'x' invalid for DEMO
`, []string{
			"kconfig warning :0:0 +3 | unmet direct dependencies detected for DEMO",
			"kconfig warning fs/demo/Kconfig:12:0 | config symbol defined without type",
			"kconfig warning .config:77:0 | symbol value 'x' invalid for DEMO",
		}},
		{"dtc", `arch/arm/boot/dts/demo.dts:12.3-15.5: Warning (unit_address_vs_reg): /soc/x: node has a unit name, but no reg property
Error: arch/arm/boot/dts/demo.dts:20.1-2 syntax error
`, []string{
			"dtc warning arch/arm/boot/dts/demo.dts:12:3 unit_address_vs_reg | /soc/x: node has a unit name, but no reg property",
			"dtc error arch/arm/boot/dts/demo.dts:20:1 | syntax error",
		}},
		{"rustc", "warning: unused variable: `x`\n  --> rust/kernel/demo.rs:12:9\n   |\n12 |     let x = 1;\n   |         ^ help\n   |\n   = note: `#[warn(unused_variables)]` on by default\n\nerror[E0425]: cannot find value `y` in this scope\n --> rust/kernel/demo.rs:20:5\n\nwarning: 1 warning emitted\n", []string{
			"rustc warning rust/kernel/demo.rs:12:9 unused_variables of rust/kernel/demo.o | unused variable: `x` | let x = 1;",
			"rustc error rust/kernel/demo.rs:20:5 E0425 of rust/kernel/demo.o | cannot find value `y` in this scope",
		}},
		{"smatch and coccinelle", "fs/demo/a.c:12 alpha() warn: passing zero to 'PTR_ERR'\n./fs/demo/a.c:30:2-5: WARNING: NULL check before some freeing functions is not needed.\n", []string{
			"smatch warning fs/demo/a.c:12:0 in alpha | passing zero to 'PTR_ERR'",
			"coccinelle warning fs/demo/a.c:30:2 | NULL check before some freeing functions is not needed.",
		}},
		{"sphinx", "Documentation/demo/api:59: fs/demo/a.c:1749: WARNING: Unexpected indentation.\nDocumentation/demo/index.rst:3: WARNING: Title underline too short.\n", []string{
			"sphinx warning fs/demo/a.c:1749:0 | Unexpected indentation.",
			"sphinx warning Documentation/demo/index.rst:3:0 | Title underline too short.",
		}},
		{"assembler", "arch/x86/demo.S: Assembler messages:\narch/x86/demo.S:7: Error: no such instruction: `foo'\n", []string{
			"as error arch/x86/demo.S:7:0 of arch/x86/demo.o | no such instruction: `foo'",
		}},
		{"make", `make[3]: fs/demo/a.c:7:1: warning: prefixed [-Wx]
make[2]: *** No rule to make target 'fs/demo/gone.o', needed by 'fs/demo/built-in.a'.  Stop.
make[1]: *** [scripts/Makefile.build:243: fs/demo] Error 2
make: *** Waiting for unfinished jobs....
`, []string{
			"cc warning fs/demo/a.c:7:1 -Wx of fs/demo/a.o | prefixed",
			"make error :0:0 | No rule to make target 'fs/demo/gone.o', needed by 'fs/demo/built-in.a'.  Stop.",
		}},
		{"damage", "\x1b[01m\x1b[Kfs/demo/a.c:7:1:\x1b[m\x1b[K \x1b[01;35m\x1b[Kwarning: \x1b[m\x1b[Kcoloured [\x1b]8;;https://x\x07-Wy\x1b]8;;\x07]\r\n" +
			"progress 10%\rprogress 20%\rfs/demo/a.c:8:1: warning: after a bar\n" +
			"2026-01-02T03:04:05.678Z fs/demo/a.c:9:1: warning: \u2018q\u2019 stamped\n" +
			"fs/demo/a.c:10:1: warning: glued  CC      fs/demo/c.o\n" +
			"fs/demo/a.c:11:1: warning: cut o", []string{
			"cc warning fs/demo/a.c:7:1 -Wy of fs/demo/a.o | coloured",
			"cc warning fs/demo/a.c:8:1 of fs/demo/a.o | after a bar",
			"cc warning fs/demo/a.c:9:1 of fs/demo/a.o | 'q' stamped",
			"cc warning fs/demo/a.c:10:1 of fs/demo/a.o | glued",
			"cc warning fs/demo/a.c:11:1 of fs/demo/a.o | cut o",
		}},
		{"mixed by -j", `  CC      fs/demo/a.o
fs/demo/a.c: In function 'fa':
net/demo/b.c: In function 'fb':
fs/demo/a.c:12:6: warning: unused variable 'x' [-Wunused-variable]
net/demo/b.c:90:2: warning: this 'if' clause does not guard... [-Wmisleading-indentation]
   12 |  int x;
  CC      net/demo/c.o
   90 |  if (a)
      |  ^~
      |      ^
`, []string{
			"cc warning fs/demo/a.c:12:6 -Wunused-variable in fa of fs/demo/a.o | unused variable 'x' | int x;",
			"cc warning net/demo/b.c:90:2 -Wmisleading-indentation in fb of net/demo/b.o | this 'if' clause does not guard... | if (a)",
		}},
		{"paths", `fs//demo/a.c:1:1: warning: one
fs/demo/./trace.h:2:2: warning: two
fs/demo/sub/../in.h:3:3: warning: three
../fs/demo/a.c:4:4: warning: four
/home/net/src/linux/fs/demo/a.c:5:5: warning: five
/home/net/src/linux/include/net/sock.h:6:6: warning: six
`, []string{
			"cc warning fs/demo/a.c:1:1 of fs/demo/a.o | one",
			"cc warning fs/demo/trace.h:2:2 | two",
			"cc warning fs/demo/in.h:3:3 | three",
			"cc warning fs/demo/a.c:4:4 of fs/demo/a.o | four",
			"cc warning fs/demo/a.c:5:5 of fs/demo/a.o | five",
			"cc warning include/net/sock.h:6:6 | six",
		}},
		{"scripts", `WARNING: Documentation/demo.rst references a file that doesn't exist: Documentation/gone.rst
ERROR: Kernel configuration is invalid.
WARN: resolve_btfids: unresolved symbol bpf_demo
fs/demo/a.c: linux/module.h is included more than once.
/src/Documentation/demo/index.rst: WARNING: document isn't included in any toctree
arch/arm/boot/dts/demo.dtb: soc@1: 'reg' is a required property
/tmp/ccAbCd12.s:56: Error: no such instruction
`, []string{
			"script warning :0:0 | Documentation/demo.rst references a file that doesn't exist: Documentation/gone.rst",
			"script error :0:0 | Kernel configuration is invalid.",
			"script warning :0:0 | resolve_btfids: unresolved symbol bpf_demo",
			"script warning fs/demo/a.c:0:0 | linux/module.h is included more than once.",
			"sphinx warning Documentation/demo/index.rst:0:0 | document isn't included in any toctree",
			"dtc warning arch/arm/boot/dts/demo.dtb:0:0 | soc@1: 'reg' is a required property",
			"as error /tmp/N:56:0 | no such instruction",
		}},
		{"not diagnostics", `
  CALL    scripts/checksyscalls.sh
cc1: all warnings being treated as errors
compilation terminated.
collect2: error: ld returned 1 exit status
make[1]: Entering directory '/obj'
make: warning:  Clock skew detected.  Your build may be incomplete.
1 warning generated.
12 errors generated.
   12 |  error: this is source text;
`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := shorts(ParseString(tc.log))
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
		})
	}
}

func TestParseBuildFacts(t *testing.T) {
	l := ParseString(`+ make -j8 W=1 C=1 O=/obj
make[1]: Entering directory '/obj'
  HOSTCC  scripts/basic/fixdep
  CC      /obj/tools/objtool/check.o
  CC      kernel/bounds.s
  CC [M]  fs/demo/a.o
  AS      arch/x86/entry.o
# CC      fs/demo/v.o
  gcc-12 -Wp,-MMD,fs/demo/.v.o.d -nostdinc -Wall -Wextra -Wno-sign-compare -c -o fs/demo/v.o /src/fs/demo/v.c
gcc (Debian 12.2.0-14) 12.2.0
  LD      vmlinux.o
gcc: fatal error: Killed signal terminated program cc1
make[2]: *** [scripts/Makefile.build:250: fs/demo/b.o] Error 1
make[1]: *** [Makefile:2000: .] Error 2
make: *** [Makefile:1] Killed
`)
	if got := fmt.Sprint(l.Objects); got != "map[arch/x86/entry.o:true fs/demo/a.o:true fs/demo/v.o:true]" {
		t.Errorf("objects: %s", got)
	}
	if got := fmt.Sprint(l.Flags["fs/demo/v.o"]); got != "[-Wall -Wextra -Wno-sign-compare]" {
		t.Errorf("flags: %s", got)
	}
	if l.Compiler != "gcc (Debian 12.2.0-14) 12.2.0" || l.Dialect != "gcc" {
		t.Errorf("compiler %q, dialect %q", l.Compiler, l.Dialect)
	}
	if l.MakeVars["W"] != "1" || l.MakeVars["C"] != "1" {
		t.Errorf("make variables: %v", l.MakeVars)
	}
	if !l.Steps["vmlinux.o"] || len(l.Failed) == 0 || l.Failed[0] != "fs/demo/b.o" || len(l.Infra) == 0 {
		t.Errorf("steps %v, failed %v, infra %v", l.Steps, l.Failed, l.Infra)
	}
}
