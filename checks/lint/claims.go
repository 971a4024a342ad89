// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"regexp"
	"strings"

	"patchcheck/patches"
)

// A claim in a letter or message is worth a note when nothing stands behind
// it: no recorded run, and in the text no name of a suite, machine or version
// and no number. Most of what people write about testing does name something,
// and is left alone.
var (
	testClaim = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`^(?:(?:and|also|it|they|this|these|all|everything|the|series|patch(?:es|set)?|changes?|code|kernel|has|have|been|was|were|is|are|i|i've|we|we've|successfully|extensively|thoroughly|heavily|fully|briefly|well|properly)[ ,]+){0,9}(?:regression |stress |smoke |boot |run-?time |function(?:al)? )?tested\b`,
		`\bno (?:new |visible |obvious |known )?regressions?\b`,
		`\bwithout (?:any )?regressions?\b`,
		`\ball (?:the )?tests? (?:still )?pass(?:ed|es)?\b`,
		`\bpass(?:es|ed) all (?:the |my |our )?tests\b`,
		`^(?:it |this |everything |all )?(?:works|worked|runs) (?:fine|well|great|flawlessly|as expected|perfectly|for me)\b`,
	}, "|"))
	honest     = regexp.MustCompile(`(?i)\b(?:un-?tested|not (?:been )?(?:yet )?(?:run-?time )?tested|(?:compile|build|compiled|built)[ -]?(?:and \w+ )?(?:-?tested|-?only)|only (?:compile|build)|lightly|not yet|needs? testing|please test|can(?:no|')t test|only tested)\b`)
	namesATest = regexp.MustCompile(`(?i)\b(?:x?fstests?|pynfs|nfstest|ltp|cthon|connectathon|kunit|kselftest|selftests?|syzkaller|syzbot|syz|reproducer|repro|poc|fio|iozone|dbench|fsx|fsstress|iperf|netperf|pktgen|qemu|kvm|kasan|kcsan|lockdep|kmemleak|ubsan|rping|perftest|vm|virtme|vng|kdevops|ci|patchcheck|smatch|sparse|coccinelle|allmodconfig|defconfig|allyesconfig|hardware|board|machine|laptop|device|loopback|rxe|siw|module|script|tree|branch|\w+-next|mainline|workload|benchmarks?|case)\b`)
	properName = regexp.MustCompile(`[^.!?\s]\s+(?:[A-Z][A-Za-z0-9-]*[A-Za-z0-9]|[a-z]+[0-9]\w*)\b`)

	speedClaim = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
		`(?:significant|great|much|noticeabl|considerabl|dramatic|substantial|vast|huge|slight|measurabl)\w* (?:improves?|improved|faster|increases?|reduces?|boosts?|better|speeds? up)`,
		`(?:improv(?:es?|ed|ing)|increas(?:es?|ed|ing)|boost(?:s|ed|ing)?) (?:the )?(?:overall |write |read |i/o |io |nfs |system |network |tcp |rdma )?(?:performance|throughput|bandwidth|iops|scalability)`,
		`(?:reduc(?:es?|ed|ing)|lower(?:s|ed|ing)?|cuts?) (?:the )?(?:overall |tail |write |read |i/o |average |round-trip )?latenc(?:y|ies)`,
		`(?:performance|throughput|latency) (?:gains?|boosts?|wins?|improvements?)`,
		`(?:better|higher|improved) (?:performance|throughput)`,
		`(?:is|are|becomes?|runs?|gets?) (?:now )?(?:much |significantly |noticeably |considerably |measurably |a lot )?faster(?: than before|\.|,| now|$)`,
	}, "|") + `)\b`)
	hedge   = regexp.MustCompile(`(?i)\b(?:may|might|could|would|should|can|potential(?:ly)?|possib(?:le|ly)|hop(?:e|ing)|expect(?:ed)?|no|not|without|instead of|rather than|in order to|to (?:improve|increase|boost|reduce|lower)|aims?|try|tries|intended)\b`)
	measure = regexp.MustCompile(`(?i)\d(?:[\d.,]*\d)?\s?(?:%|percent|x\b|×|times\b|[kmgt]i?b(?:/s|ps|it/s)|[kmgt]?iops|[kmg]?ops|[kmg]?pps|req(?:uests)?/s|[µun]s(?:ecs?)?\b|ms(?:ecs?)?\b|s\b|secs?\b|seconds|minutes|cycles|instructions|mops|th=\[)`)

	perfTopic  = regexp.MustCompile(`(?i)\b(?:throughput|latenc(?:y|ies)|bandwidth|iops|performance|fio|iperf3?|netperf|dbench|iozone|benchmarks?|clat|mb/s|mib/s|gib/s|gb/s|gbps)\b`)
	perfNumber = regexp.MustCompile(`(?i)\d[\d.,]*\s?(?:%|percent|[kmgt]i?b/s|[kmgt]bps|[kmgt]bit/s|k?iops|ops/s(?:ec)?|req(?:uests)?/s)|\d[\d.]*\s?(?:[µu]s|usecs?|ms|msecs?)\b|th=\[ *\d+\]`)
	perfBetter = regexp.MustCompile(`(?i)\b(?:better|faster|slower|improv\w*|increas\w*|reduc\w*|decreas\w*|lower\w*|higher|drop(?:s|ped)|gain\w*|speed-?up|regress\w*|before|after|baseline|patched)\b`)
	perfPair   = regexp.MustCompile(`(?i)\b(?:before|after|baseline|base|patched|unpatched|without|w/o|vs\.?|versus|compared|old|new|vanilla|from [~\d][^\n]{0,30} to)\b|->|=>`)
	perfRuns   = regexp.MustCompile(`(?i)\bn ?= ?\d+|\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten|several|multiple) (?:\w+ )?(?:runs?|iterations?|times|samples|repetitions|repeats|rounds|trials|boots|passes|measurements)\b|\b(?:averag\w*|mean|median|std ?dev|stddev|standard deviation|ci|confidence|variance|p-value|spread|repeatedly|consistently)\b|±|\+/-`)
)

// claims looks at the cover letter and at each message. Only the author's own
// prose counts, and one note per text is enough.
func (l *linter) claims() {
	if len(l.f.Runs) > 0 {
		return
	}
	var letter string
	if c := l.s.Cover; c != nil {
		letter = strings.Join(coverProse(c.Body), "\n")
	}
	texts := []string{letter}
	measured := measure.MatchString(letter) && perfTopic.MatchString(letter)
	for _, p := range l.s.Patches {
		t := messageText(p)
		texts = append(texts, t)
		measured = measured || strings.ContainsAny(t, "0123456789") && perfTopic.MatchString(t) && measure.MatchString(t)
	}
	for i, t := range texts {
		l.p, l.use = nil, l.profiles
		where := "the cover letter"
		if i > 0 {
			l.p = l.s.Patches[i-1]
			l.use = l.profilesOf(l.p)
			where = "the message"
		}
		l.claimsIn(where, t, measured)
	}
	l.p = nil
}

// messageText is a commit message and the text below its "---".
func messageText(p *patches.Patch) string {
	var sb strings.Builder
	for _, ln := range bodyLines(p) {
		sb.WriteString(ln.text + "\n")
	}
	sb.WriteString("\n" + strings.Join(coverProse(p.Appendix), "\n"))
	return sb.String()
}

func (l *linter) claimsIn(where, text string, measured bool) {
	// Most texts make no claim; plain words sort them out faster than the
	// expressions do.
	lower := strings.ToLower(text)
	testing := containsAny(lower, "tested", "regression", "pass", "works ", "worked ", "runs ")
	speeding := !measured && containsAny(lower, "perform", "throughput", "latenc", "faster", "speed", "bandwidth", "iops", "improve", "boost", "scalab")
	if testing || speeding {
		l.wordClaims(where, text, testing, speeding)
	}
	if !containsAny(lower, "throughput", "latenc", "bandwidth", "iops", "perform", "fio", "perf", "dbench", "iozone", "benchmark", "clat", "b/s", "bps") {
		return
	}
	l.numberClaims(where, text)
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// wordClaims looks for claims of testing and of speed in words.
func (l *linter) wordClaims(where, text string, testing, speeding bool) {
	ss := sentences(text)
	vague, speed := !testing, !speeding
	for i, s := range ss {
		if !vague && testClaim.MatchString(s) && !honest.MatchString(s) {
			near := s
			if i > 0 {
				near = ss[i-1] + " " + s
			}
			if i+1 < len(ss) {
				near += " " + ss[i+1]
			}
			if !namesATest.MatchString(near) && !properName.MatchString(s) && !strings.ContainsAny(near, "0123456789`:") {
				vague = true
				l.add("claim.test-vague", []string{s}, "%s claims testing and names no suite, kernel or machine, and no run is recorded", where)
			}
		}
		if !speed && speedClaim.MatchString(s) && !hedge.MatchString(s) {
			speed = true
			l.add("claim.speed-unmeasured", []string{s}, "%s claims speed (%q) and gives no number", where, speedClaim.FindString(s))
		}
	}
}

// numberClaims looks for measurements that nobody can check.
func (l *linter) numberClaims(where, text string) {
	if nums := perfNumber.FindAllString(text, -1); len(nums) > 0 && perfTopic.MatchString(text) && perfBetter.MatchString(text) {
		var miss []string
		if !perfPair.MatchString(text) {
			miss = append(miss, "what it was before and after")
		}
		if !perfRuns.MatchString(text) {
			miss = append(miss, "how often it was measured")
		}
		if len(miss) > 0 {
			l.add("claim.numbers-bare", nums, "%s gives measurements, but not %s", where, strings.Join(miss, " and "))
		}
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?](?:\s+|$)|\n\s*\n`)

// sentences cuts prose into sentences; quoted and indented lines are left
// out.
func sentences(text string) []string {
	var sb strings.Builder
	for _, t := range strings.Split(text, "\n") {
		if t != "" && (t[0] == '>' || t[0] == '\t' || strings.HasPrefix(t, "    ") || logLine.MatchString(t)) {
			continue
		}
		t = strings.TrimLeft(t, " *-")
		sb.WriteString(t)
		if t == "" {
			sb.WriteString("\n\n")
		} else {
			sb.WriteByte('\n')
		}
	}
	var out []string
	for _, s := range sentenceEnd.Split(sb.String(), -1) {
		if s = strings.Join(strings.Fields(s), " "); s != "" && len(s) < 2000 {
			out = append(out, s)
		}
	}
	return out
}
