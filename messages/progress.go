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

// This file owns the limits of what tasks report of their progress, the checks of the reports, and the check of the
// pattern by which a job's output is read.

const (
	// MaxSteps bounds a step and a total: every program can write it as a number.
	MaxSteps = 1 << 53
	// MaxMetrics bounds the metrics that are shown of a task.
	MaxMetrics = 16
	// MaxMetricBytes bounds the name and the value of a metric.
	MaxMetricBytes = 64
	// MaxProgresses bounds the attempts of which one heartbeat brings the progress.
	MaxProgresses = 64
	// MaxPatternBytes bounds a pattern for progress in a job's output.
	MaxPatternBytes = 256
	// maxPatternSteps bounds the program that a pattern compiles to: a repetition such as {1000} multiplies its part.
	maxPatternSteps = 500
)

// ProgressPattern compiles a pattern for lines of a job's output. A pattern has a group for the step, and at most one
// more, for the total. The error says what is wrong with the pattern.
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

// validProgress checks how a job's tasks report their progress.
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

// valid refuses a metric that is longer than what is shown, or that steers a terminal.
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
	)
}

// Shows reports whether a name or a value of a metric may be shown as it is.
func Shows(s string) bool {
	return len(s) <= MaxMetricBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, Steers)
}

// Reached is how far something is: a step of a total, or of nobody knows how many.
type Reached interface {
	GetStep() int64
	GetTotal() int64
}

// Behind reports whether one is not as far as the other. Shares are compared if both have a total, and steps otherwise.
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

// ProgressWords says how far a job is, in a few words: "45% 1h left"; empty: no step was reported.
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
