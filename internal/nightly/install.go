// SPDX-License-Identifier: Apache-2.0

package nightly

import (
	"fmt"
	"strings"
)

// Install says what a nightly job is installed for.
type Install struct {
	Exe    string // absolute path of this program
	Config string // absolute path of the configuration
	User   string // account that the service runs as; "" for one that systemd makes
	At     string // time of day, "01:30"
	Home   string // home folder of who installs it; "" when there is none
}

// Unit is a file to install, and where it goes.
type Unit struct {
	Path  string // where it belongs
	Text  string
	After string // what to do then
}

// Units gives a systemd service with its timer, a GitHub Actions workflow and a
// crontab line: one of the three is enough.
func (i Install) Units() []Unit {
	return []Unit{
		{"/etc/systemd/system/patchcheck-nightly.service", i.service(), ""},
		{"/etc/systemd/system/patchcheck-nightly.timer", i.timer(), "systemctl daemon-reload && systemctl enable --now patchcheck-nightly.timer"},
		{".github/workflows/patchcheck-nightly.yml", i.workflow(), "commit it to the default branch; the runner needs patchcheck and QEMU (patchcheck doctor)"},
		{"crontab", i.cron(), "add it with crontab -e"},
	}
}

// Text prints all of it.
func (i Install) Text() string {
	var b strings.Builder
	for _, u := range i.Units() {
		fmt.Fprintf(&b, "# ---- %s\n%s", u.Path, u.Text)
		if u.After != "" {
			fmt.Fprintf(&b, "# then: %s\n", u.After)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// systemdWord quotes an argument of ExecStart (systemd.service(5)).
func systemdWord(s string) string {
	s = strings.NewReplacer(`%`, `%%`, `$`, `$$`).Replace(s)
	if strings.ContainsAny(s, " \t\"'\\;") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}

// shellWord quotes an argument for sh.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// underHome says whether ProtectHome=yes would hide a path.
func (i Install) underHome(p string) bool {
	for _, h := range []string{"/home", "/run/user", i.Home} {
		if h != "" && strings.HasPrefix(p, strings.TrimSuffix(h, "/")+"/") {
			return true
		}
	}
	return false
}

func (i Install) service() string {
	who := "# An account that systemd makes for this service alone.\nDynamicUser=yes\n"
	if i.User != "" {
		who = "User=" + i.User + "\n"
	}
	home := "yes"
	if i.underHome(i.Exe) || i.underHome(i.Config) {
		home = "read-only"
	}
	return `[Unit]
Description=patchcheck nightly: kernel series against their trees
Documentation=man:patchcheck(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=` + systemdWord(i.Exe) + ` nightly --config ` + systemdWord(i.Config) + `
# Exit status 1 means that something got worse, 3 trouble of our own; both mark
# the unit as failed, so that OnFailure= can tell somebody.
` + who + `SupplementaryGroups=kvm
StateDirectory=patchcheck
CacheDirectory=patchcheck
Environment=XDG_STATE_HOME=%S XDG_CACHE_HOME=%C
# A killed night is taken up again by the next start.
TimeoutStartSec=infinity
TimeoutStopSec=60
Nice=10
IOSchedulingClass=idle
CPUSchedulingPolicy=batch

# Confinement. ProtectKernelTunables=, ProtectKernelLogs= and ProtectProc= are
# left out on purpose: with them bubblewrap cannot mount a /proc of its own, and
# the builds would run without their sandbox.
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=` + home + `
PrivateTmp=yes
DevicePolicy=closed
DeviceAllow=/dev/kvm rw
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
CapabilityBoundingSet=
UMask=0027
`
}

func (i Install) timer() string {
	return `[Unit]
Description=Start patchcheck nightly every night

[Timer]
OnCalendar=*-*-* ` + i.At + `:00
RandomizedDelaySec=15min
Persistent=yes

[Install]
WantedBy=timers.target
`
}

func (i Install) cronTime() string {
	var h, m int
	fmt.Sscanf(i.At, "%d:%d", &h, &m)
	return fmt.Sprintf("%d %d * * *", m, h)
}

func (i Install) cron() string {
	line := shellWord(i.Exe) + " nightly --config " + shellWord(i.Config)
	return i.cronTime() + " " + strings.ReplaceAll(line, "%", `\%`) + "\n"
}

func (i Install) workflow() string {
	return `name: patchcheck nightly
on:
  schedule:
    - cron: '` + i.cronTime() + `'
  workflow_dispatch:
permissions:
  contents: read
  checks: write
  statuses: write
  pull-requests: write
# A night that still runs is not cut short by the next.
concurrency:
  group: patchcheck-nightly
  cancel-in-progress: false
jobs:
  nightly:
    # A machine of your own keeps kernels and history from night to night.
    runs-on: [self-hosted, linux]
    timeout-minutes: 1440
    steps:
      - name: Run the night
        env:
          GITHUB_TOKEN: ${{ github.token }}
        run: ` + yamlWord(shellWord(i.Exe)+" nightly --config "+shellWord(i.Config)+` | tee -a "$GITHUB_STEP_SUMMARY"; exit "${PIPESTATUS[0]}"`) + `
        shell: bash
`
}

// yamlWord quotes a string for YAML.
func yamlWord(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
