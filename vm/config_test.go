// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestCmdline(t *testing.T) {
	plumbed := &plumbing{sockDir: "/tmp/pc-vm-1", initrd: "/tmp/pc-vm-1/initrd"}
	tests := map[string]Config{
		"by-hand":  {Kernel: "/k/bzImage", Initrds: []string{"/i/initrd.cpio", "/i/more.cpio"}},
		"run":      {Kernel: "/k/bzImage", Initrds: []string{"/i/initrd.cpio"}, TSCKHz: 2600000, run: plumbed},
		"kvm":      {Kernel: "/k/bzImage", Accel: KVM, TSCKHz: 2600000, CPUs: 4, MemMiB: 4096, run: plumbed},
		"pc":       {Kernel: "/k/bzImage", Machine: "pc", CPUs: 1, run: plumbed},
		"extras":   {Kernel: "/k/b,z", Append: []string{"slab_debug=FZPU"}, Devices: []string{"virtio-rng-pci"}, Args: []string{"-rtc", "base=utc"}, Watchdog: true, LogLevel: 8, run: plumbed},
		"no-image": {Kernel: "/k/bzImage", run: &plumbing{sockDir: "/tmp/a,b"}},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			argv, err := Cmdline(cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(argv, "\n") + "\n"
			golden := filepath.Join("testdata", "cmdline-"+name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
			// What no guest may lack, whatever else is asked for.
			for _, must := range [][]string{{"-nodefaults"}, {"-no-reboot"}, {"-sandbox"}, {"-action", "panic=none"}, {"-device", "pvpanic-pci"}} {
				if !containsRun(argv, must) {
					t.Errorf("lacks %v", must)
				}
			}
			kernel := argv[slices.Index(argv, "-append")+1]
			for _, must := range []string{"panic=-1", "console=ttyS0"} {
				if !slices.ContainsFunc(strings.Fields(kernel), func(w string) bool { return strings.HasPrefix(w, must) }) {
					t.Errorf("kernel command line lacks %s: %s", must, kernel)
				}
			}
			for _, a := range argv {
				if strings.Contains(a, "netdev") || strings.Contains(a, "hostfwd") || strings.Contains(a, "tcp:") {
					t.Errorf("%q: a guest has no network and no port of the host", a)
				}
			}
		})
	}
}

func containsRun(all, part []string) bool {
	for i := range all {
		if i+len(part) <= len(all) && slices.Equal(all[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func TestCmdlineRefuses(t *testing.T) {
	ok := Config{Kernel: "/k/bzImage"}
	tests := map[string]struct {
		edit func(*Config)
		want string
	}{
		"no kernel":    {func(c *Config) { c.Kernel = "" }, "no kernel image"},
		"accelerator":  {func(c *Config) { c.Accel = "xen" }, `accelerator "xen"`},
		"microvm":      {func(c *Config) { c.Machine = "microvm" }, "without ACPI"},
		"quiet":        {func(c *Config) { c.Append = []string{"quiet"} }, "would hide warnings"},
		"level":        {func(c *Config) { c.LogLevel = 4 }, "warnings would be hidden"},
		"memory":       {func(c *Config) { c.MemMiB = 16 }, "at least 64"},
		"CPUs":         {func(c *Config) { c.CPUs = -1 }, "give 1 to 255"},
		"control char": {func(c *Config) { c.Append = []string{"a\nb"} }, "control character"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := ok
			tc.edit(&c)
			_, err := Cmdline(c)
			var ie *InfraError
			if !errors.As(err, &ie) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLimitsScale(t *testing.T) {
	tcg := Config{Accel: TCG}.limits()
	kvm := Config{Accel: KVM}.limits()
	slow := Config{Accel: TCG, Slow: 8}.limits()
	if tcg.Boot != tcgFactor*kvm.Boot || slow.Boot != 8*tcg.Boot || slow.Silence <= tcg.Silence {
		t.Errorf("tcg %+v kvm %+v slow %+v", tcg, kvm, slow)
	}
	if tcg.Death != kvm.Death || tcg.Death > 3*time.Second {
		t.Errorf("a panic must be known soon under any accelerator: %v", tcg.Death)
	}
	if l := (Config{Limits: Limits{Boot: time.Minute}, Slow: 8}).limits(); l.Boot != time.Minute {
		t.Errorf("a limit that was set is changed: %v", l.Boot)
	}
}

func TestParseAccel(t *testing.T) {
	for _, s := range []string{"auto", "kvm", "tcg"} {
		if a, err := ParseAccel(s); err != nil || string(a) != s {
			t.Errorf("%s: %v %v", s, a, err)
		}
	}
	if _, err := ParseAccel("hvf"); err == nil || !strings.Contains(err.Error(), "auto, kvm, tcg") {
		t.Errorf("got %v", err)
	}
}

func TestMissingOptions(t *testing.T) {
	var all strings.Builder
	for _, o := range RequiredOptions {
		all.WriteString("CONFIG_" + o + "=y\n")
	}
	tests := map[string]struct {
		config string
		want   []string
	}{
		"complete": {all.String(), nil},
		"module":   {strings.Replace(all.String(), "CONFIG_VIRTIO_PCI=y", "CONFIG_VIRTIO_PCI=m", 1), []string{"CONFIG_VIRTIO_PCI=y (it is a module)"}},
		"unset":    {strings.Replace(all.String(), "CONFIG_TMPFS=y", "# CONFIG_TMPFS is not set", 1), []string{"CONFIG_TMPFS"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := MissingOptions(strings.NewReader(tc.config))
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q %v", got, err)
			}
		})
	}
}
