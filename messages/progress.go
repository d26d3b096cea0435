package messages

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file has the limits and checks of progress reports from tasks. It also checks the pattern that extracts progress
// from a job's output.

const (
	// MaxSteps limits a step and a total. A float64 represents all integers up to it exactly.
	MaxSteps = 1 << 53
	// MaxMetrics limits the metrics that are shown for a task.
	MaxMetrics = 16
	// MaxMetricBytes limits the name and the value of a metric.
	MaxMetricBytes = 64
	// MaxProgresses limits the number of attempts whose progress one heartbeat reports.
	MaxProgresses = 64
	// MaxPaces limits the ranks of one attempt whose pace a node reports.
	MaxPaces = 128
	// MaxStepUs limits the time for a step, in microseconds.
	MaxStepUs = MaxDurationMs * 1000
	// MaxPatternBytes limits a pattern for progress in a job's output.
	MaxPatternBytes = 256
	// maxPatternSteps limits the program that a pattern compiles to, because a repetition such as {1000} multiplies
	// its part.
	maxPatternSteps = 500
)

// ProgressPattern compiles a pattern for lines of a job's output. A pattern has a group for the step, and at most one
// more, for the total. The error describes what is wrong with the pattern.
func ProgressPattern(text string) (*regexp.Regexp, error) {
	if len(text) > MaxPatternBytes {
		return nil, fmt.Errorf("is %d bytes long, more than %d", len(text), MaxPatternBytes)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			return nil, fmt.Errorf("is no regular expression: %s: %s", e.Code, OneLine(e.Expr))
		}
		return nil, err
	}
	if n := tree.MaxCap(); n < 1 || n > 2 {
		return nil, fmt.Errorf("has %d groups", n)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPatternSteps {
		return nil, errors.New("is too expensive to match")
	}
	return regexp.Compile(text)
}

// validProgress checks the progress settings of a job.
func (x *JobSpec) validProgress() error {
	pattern := x.GetProgress().GetPattern()
	if pattern == "" {
		return nil
	}
	if err := text("progress.pattern", pattern, MaxPatternBytes); err != nil {
		return err
	}
	if _, err := ProgressPattern(pattern); err != nil {
		return refuse("progress.pattern", err.Error(),
			`write one group for the step and one for the total, such as step (\d+)/(\d+)`)
	}
	return nil
}

// valid refuses a metric that is too long, or that has invisible characters.
func (x *Metric) valid() error {
	return first(
		given("name", x.GetName(), MaxMetricBytes),
		text("value", x.GetValue(), MaxMetricBytes),
	)
}

func (x *AttemptProgress) valid() error {
	return first(
		part("token", x.GetToken()),
		id("job", x.GetJob()),
		between("ranks", int64(x.GetRanks()), 0, MaxGangTasks),
		between("least_step", x.GetLeastStep(), 0, MaxSteps),
		between("total", x.GetTotal(), 0, MaxSteps),
		between("milli_rate", x.GetMilliRate(), 0, MaxSteps),
		between("most_step", x.GetMostStep(), 0, MaxSteps),
		between("age_ms", x.GetAgeMs(), 0, MaxDurationMs),
		between("garbage", x.GetGarbage(), 0, MaxSteps),
		parts("metrics", x.GetMetrics(), 0, MaxMetrics),
		parts("quiet", x.GetQuiet(), 0, MaxGangTasks),
		between("active", int64(x.GetActive()), 0, MaxGangTasks),
		between("on_time", int64(x.GetOnTime()), 0, MaxGangTasks),
		between("sent_ns", x.GetSentNs(), 0, 1<<62),
		maybe("use", x.GetUse()),
		parts("paces", x.GetPaces(), 0, MaxPaces),
	)
}

func (x *RankPace) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		between("step", x.GetStep(), 0, MaxSteps),
		between("step_us", x.GetStepUs(), 0, MaxStepUs),
		between("work_us", x.GetWorkUs(), 0, MaxStepUs),
	)
}

// Shows reports whether a name or a value of a metric may be shown as it is.
func Shows(s string) bool {
	return len(s) <= MaxMetricBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, Steers)
}

// Reached is a step, with the total number of steps if it is known.
type Reached interface {
	GetStep() int64
	GetTotal() int64
}

// Behind reports whether a has less progress than b. Shares are compared if both have a total, and steps
// otherwise.
func Behind(a, b Reached) bool {
	if a.GetTotal() > 0 && b.GetTotal() > 0 {
		aHigh, aLow := bits.Mul64(uint64(a.GetStep()), uint64(b.GetTotal()))
		bHigh, bLow := bits.Mul64(uint64(b.GetStep()), uint64(a.GetTotal()))
		return aHigh < bHigh || aHigh == bHigh && aLow < bLow
	}
	return a.GetStep() < b.GetStep()
}

// GetStep returns the step of the slowest rank.
func (x *AttemptProgress) GetStep() int64 { return x.GetLeastStep() }

// ProgressWords returns a short text of a job's progress, such as "45% 1h left". It returns "" if no step was reported.
func ProgressWords(p *JobProgress) string {
	switch {
	case p.GetRanks() == 0:
		return ""
	case p.Total == 0:
		return "step " + strconv.FormatInt(p.Step, 10)
	case p.LeftMs == 0:
		return strconv.Itoa(int(p.Percent)) + "%"
	}
	return strconv.Itoa(int(p.Percent)) + "% " + Span(p.LeftMs) + " left"
}

// StepWords says where the slowest and the fastest rank are, how fast the slowest is, and when a step last changed.
func StepWords(p *JobProgress) string {
	text := strconv.FormatInt(p.GetStep(), 10)
	if p.GetMostStep() != p.GetStep() {
		text += " to " + strconv.FormatInt(p.GetMostStep(), 10)
	}
	if p.GetTotal() > 0 {
		text += " of " + strconv.FormatInt(p.GetTotal(), 10)
	}
	if p.GetRanks() > 1 {
		text += fmt.Sprintf(" on %d ranks", p.GetRanks())
	}
	if p.GetMilliRate() > 0 {
		rate := strconv.FormatInt(p.GetMilliRate()/1000, 10)
		if p.GetMilliRate() < 100_000 {
			rate = strconv.FormatFloat(float64(p.GetMilliRate())/1000, 'g', 3, 64)
		}
		text += ", " + rate + " steps/s"
	}
	return text + ", last change " + Span(p.GetChangedMsAgo()) + " ago"
}

// maxSlowWords limits the ranks that SlowWords names.
const maxSlowWords = 4

// SlowWords names the ranks that are slower than the others, the slowest first. It returns "" if there are none.
func SlowWords(p *JobProgress) string {
	var parts []string
	for _, r := range p.GetSlow() {
		if len(parts) == maxSlowWords {
			break
		}
		parts = append(parts, fmt.Sprintf("rank %d on %s needs %s the median time of a step, for %d steps", r.GetRank(),
			OneLine(r.GetNode()), TimesWords(r.GetPercent()), r.GetSteps()))
	}
	if more := int(p.GetSlowRanks()) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// TimesWords writes a percentage as a factor, such as "1.35 times".
func TimesWords(percent int64) string { return fmt.Sprintf("%d.%02d times", percent/100, percent%100) }
