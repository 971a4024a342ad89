// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"patchcheck/checks"
	"patchcheck/checks/stats"
	"patchcheck/checks/tracelog"
	"patchcheck/patches/mail"
)

// traced is what the trace command prints.
type traced struct {
	tracelog.Count
	Findings []checks.Finding `json:"findings,omitempty"`
	Pairs    *tracedPairs     `json:"pairs,omitempty"`
}

// tracedPairs are the latencies between two events, in microseconds.
type tracedPairs struct {
	Request   string              `json:"request"`
	Reply     string              `json:"reply"`
	N         int                 `json:"n"`
	Discarded int                 `json:"discarded"` // over a gap, or without their request
	Open      int                 `json:"open"`      // requests without a reply
	Latency   map[string]*float64 `json:"latency_us,omitempty"`
}

var latencies = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}

func (a *app) traceCmd() *cobra.Command {
	var asJSON bool
	var pair, key []string
	var sizeKB int64
	cmd := &cobra.Command{
		Use:   "trace TRACE [STATS...]",
		Short: "Count events in ftrace's text, or say that events were lost",
		Long: `Count the events of a trace by name. TRACE is a file, with the per_cpu/cpuN/stats
files of the same instance after it, or a tracing instance's folder, which has
all of them. A buffer that lost events gives no number: the counts are INVALID,
with what each CPU lost (exit code 3).

--pair joins two events whose fields of --key are equal and prints the time
between them; pairs over a gap are left out and counted.`,
		Example: `  patchcheck trace /sys/kernel/tracing/instances/rdma
  patchcheck trace trace.txt cpu0-stats.txt cpu1-stats.txt
  patchcheck trace --pair svc_process,svc_send --key xid /sys/kernel/tracing`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(pair) != 0 && (len(pair) != 2 || len(key) == 0) || len(pair) == 0 && len(key) != 0 {
				return usageError("--pair takes two events and --key the fields that join them: --pair svc_process,svc_send --key xid")
			}
			var out traced
			text, ring, err := a.readTrace(args, sizeKB, &out)
			if err != nil {
				return err
			}
			t, err := tracelog.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if len(t.Events) == 0 && t.InBuf < 0 {
				return usageError("%s holds no trace: neither an event nor ftrace's header", args[0])
			}
			out.Count = tracelog.Evaluate(t, ring)
			out.Findings = append(out.Count.Findings(checks.Where{}), out.Findings...)
			if len(pair) == 2 {
				out.Pairs = pairUp(t, pair, key)
			}
			if asJSON {
				if !out.Valid {
					out.ByEvent = nil // no number rather than a wrong one
				}
				err = a.print(out)
			} else {
				a.showTrace(out)
			}
			if err == nil && !out.Valid {
				err = &exitError{code: exitInfra}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().StringSliceVar(&pair, "pair", nil, "two events, first and second")
	cmd.Flags().StringSliceVar(&key, "key", nil, "fields that are equal in both events of a pair")
	cmd.Flags().Int64Var(&sizeKB, "asked-kb", 0, "with a folder: the buffer_size_kb that was asked for, to be compared")
	return cmd
}

var cpuRE = regexp.MustCompile(`cpu(\d+)`)

// readTrace reads the trace and the statistics of its CPUs.
func (a *app) readTrace(args []string, sizeKB int64, out *traced) (string, []tracelog.RingStats, error) {
	trace, files := args[0], args[1:]
	if fi, err := os.Stat(trace); err == nil && fi.IsDir() {
		if len(files) > 0 {
			return "", nil, usageError("%s is a folder and has the statistics itself", trace)
		}
		files, _ = filepath.Glob(filepath.Join(trace, "per_cpu", "cpu*", "stats")) // the pattern is sound
		if len(files) == 0 {
			return "", nil, usageError("%s is no tracing instance: no per_cpu/cpu*/stats in it", trace)
		}
		if sizeKB > 0 {
			b, err := os.ReadFile(filepath.Join(trace, "buffer_size_kb"))
			if err != nil {
				return "", nil, usageError("%v", err)
			}
			if f, bad := tracelog.CheckBufferSize(filepath.Base(trace), sizeKB, string(b)); bad {
				out.Findings = append(out.Findings, f)
			}
		}
		trace = filepath.Join(trace, "trace")
	} else if sizeKB > 0 {
		return "", nil, usageError("--asked-kb needs the instance's folder")
	}
	b, err := a.read(trace)
	if err != nil {
		return "", nil, err
	}
	var ring []tracelog.RingStats
	for i, f := range files {
		cpu := i
		if m := cpuRE.FindAllStringSubmatch(f, -1); m != nil {
			cpu, _ = strconv.Atoi(m[len(m)-1][1])
		}
		text, err := a.read(f)
		if err != nil {
			return "", nil, err
		}
		s, err := tracelog.ParseRingStats(cpu, string(text))
		if err != nil {
			return "", nil, usageError("%s: %v", f, err)
		}
		ring = append(ring, s)
	}
	return string(b), ring, nil
}

func pairUp(t tracelog.Trace, pair, key []string) *tracedPairs {
	ps, discarded, open := tracelog.Pairs(t, tracelog.Key(pair[0], key...), tracelog.Key(pair[1], key...))
	p := &tracedPairs{Request: pair[0], Reply: pair[1], N: len(ps), Discarded: discarded, Open: open}
	if len(ps) == 0 {
		return p
	}
	var us []float64
	for _, x := range ps {
		us = append(us, 1e6*(x.Reply.Time-x.Request.Time))
	}
	least, most := slices.Min(us), slices.Max(us)
	p.Latency = map[string]*float64{"min": &least, "max": &most}
	for _, l := range latencies {
		p.Latency[l.name] = nil
		if v, ok := stats.Percentile(us, l.q); ok {
			p.Latency[l.name] = &v
		}
	}
	return p
}

func (a *app) showTrace(t traced) {
	for _, n := range slices.Sorted(maps.Keys(t.ByEvent)) {
		fmt.Fprintf(a.stdout, "%8s  %s\n", t.String(n), mail.Printable(n))
	}
	if p := t.Pairs; p != nil {
		fmt.Fprintf(a.stdout, "%s to %s: %d pairs, %d left out, %d without a reply\n", p.Request, p.Reply, p.N, p.Discarded, p.Open)
		if p.N > 0 {
			var cols []string
			for _, n := range []string{"min", "p50", "p90", "p99", "p99.9", "max"} {
				v := stats.NA(p.N)
				if x := p.Latency[n]; x != nil {
					v = fmt.Sprintf("%.1f", *x)
				}
				cols = append(cols, n+" "+v)
			}
			fmt.Fprintf(a.stdout, "    us: %s\n", strings.Join(cols, ", "))
		}
	}
	for _, f := range t.Findings {
		fmt.Fprintf(a.stdout, "%s: %s [%s]\n", f.Severity, mail.Printable(f.Message), f.ID)
		for _, e := range f.Evidence {
			fmt.Fprintf(a.stdout, "    %s\n", mail.Printable(e))
		}
	}
}
