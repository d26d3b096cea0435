package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/yi-json/synapse/sim/record"
)

// This file formats the figures as the tables of docs/reports/quality.md.

const (
	head = "| case | runs | mean wait | ÷ `sjf` | ÷ `easy` | gangs' wait | ÷ `easy` | p99 | longest | ÷ `easy` | " +
		"util | rack | idle | overruns | estimated | cover |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	classHead = "| case | class | jobs | mean wait | ÷ `sjf` | ÷ `easy` | mean slowdown | ÷ `easy` | " +
		"p95 slowdown | ÷ `easy` |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n"
	instrumentHead = "| mean wait in seconds | fifo | greedy | easy | sjf |\n|---|---|---|---|---|\n"

	// The table between these two lines of the page is replaced.
	from = "<!-- written by make quality -->\n"
	to   = "<!-- end of what make quality writes -->\n"
)

// mean returns the mean of a figure over some runs, and its standard deviation, which is 0 for one run.
func mean(runs []*record.Result, of func(*record.Result) float64) (mean, spread float64) {
	for _, r := range runs {
		mean += of(r) / float64(len(runs))
	}
	if len(runs) == 1 {
		return mean, 0
	}
	for _, r := range runs {
		spread += (of(r) - mean) * (of(r) - mean)
	}
	return mean, math.Sqrt(spread / float64(len(runs)-1))
}

// within formats a mean in seconds with its spread.
func within(mean, spread float64) string {
	if spread == 0 {
		return whole(mean)
	}
	return whole(mean) + " ± " + whole(spread)
}

// row returns a line of the table: the means of the default policy's runs with the spread of its waits, and their
// ratios to the means of the same runs of other policies.
func row(name string, g goal, runs, easy, sjf []*record.Result) string {
	of := func(figure func(*record.Result) float64) float64 {
		m, _ := mean(runs, figure)
		return m
	}
	least := func(figure func(*record.Result) float64) float64 {
		m, _ := mean(easy, figure)
		return m
	}
	wait, spread := mean(runs, waitAvg)
	gangs, gangSpread := mean(runs, gangsWait)
	p99, longest := of(waitP99), of(waitMax)
	p99Most, _ := mean(sjf, waitP99)
	util := of(func(r *record.Result) float64 { return r.Util })
	rack := of(func(r *record.Result) float64 { return known(r.Rack) })
	cover := of(func(r *record.Result) float64 { return known(r.PromiseCover) })
	cells := []string{name, fmt.Sprint(len(runs)), within(wait, spread), ratio(runs, sjf, waitAvg, g.sjf),
		ratio(runs, easy, waitAvg, g.easy), within(gangs, gangSpread), ratio(runs, easy, gangsWait, g.gangs),
		bold(whole(p99), g.p99 && p99 > max(least(waitP99), 1.3*p99Most)), whole(longest),
		ratio(runs, easy, waitMax, g.longest),
		bold(fmt.Sprintf("%.3f", util), util < least(func(r *record.Result) float64 { return r.Util })-0.06),
		bold(fmt.Sprintf("%.2f", rack), rack < g.rack),
		fmt.Sprintf("%.3f", of(func(r *record.Result) float64 { return r.IdleFit })),
	}
	if runs[0].PromiseTold == nil {
		return "| " + strings.Join(append(cells, "–", "–", "–"), " | ") + " |\n"
	}
	cells = append(cells, fmt.Sprintf("%.0f", of(func(r *record.Result) float64 { return known(r.Slips) })),
		fmt.Sprintf("%.2f", of(func(r *record.Result) float64 { return known(r.PromiseTold) })),
		bold(fmt.Sprintf("%.2f", cover), g.cover && (cover < 0.80 || cover > 0.97)))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// classRows returns one line for each class of jobs, with its ratios to the same class under other policies.
func classRows(name string, g goal, runs, easy, sjf []*record.Result) string {
	var out strings.Builder
	for _, c := range runs[0].Classes {
		of := func(figure func(record.Waits) float64) func(*record.Result) float64 {
			return func(r *record.Result) float64 { return figure(classOf(r, c.GPUs)) }
		}
		wait := of(func(w record.Waits) float64 { return w.WaitAvg })
		slow := of(func(w record.Waits) float64 { return w.SlowdownAvg })
		slowP95 := of(func(w record.Waits) float64 { return w.SlowdownP95 })
		waits, spread := mean(runs, wait)
		slows, _ := mean(runs, slow)
		slowsP95, _ := mean(runs, slowP95)
		gangs, most := 0.0, 0.0
		if c.GPUs == record.MultiNode {
			gangs, most = g.gangs, g.slow
		}
		fmt.Fprintf(&out, "| %s | %s | %d | %s | %s | %s | %.2f | %s | %.1f | %s |\n", name, c.GPUs, c.Jobs,
			within(waits, spread), ratio(runs, sjf, wait, 0), ratio(runs, easy, wait, gangs), slows,
			ratio(runs, easy, slow, 0), slowsP95, ratio(runs, easy, slowP95, most))
	}
	return out.String()
}

// classOf returns the results of a class, or zeros if no job of the run belongs to it.
func classOf(r *record.Result, gpus string) record.Waits {
	for _, c := range r.Classes {
		if c.GPUs == gpus {
			return c.Waits
		}
	}
	return record.Waits{}
}

func waitAvg(r *record.Result) float64   { return r.WaitAvg }
func waitP99(r *record.Result) float64   { return r.WaitP99 }
func gangsWait(r *record.Result) float64 { return known(r.WaitMultiAvg) }
func waitMax(r *record.Result) float64   { return r.WaitMax }

func known(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}

// ratio formats the mean of a figure over some runs, divided by its mean over the runs of another policy, with the
// standard error of the quotient. It returns a dash if the divisor is 0, and the quotient is bold if it exceeds most.
func ratio(runs, others []*record.Result, of func(*record.Result) float64, most float64) string {
	a, spreadA := mean(runs, of)
	b, spreadB := mean(others, of)
	if b == 0 {
		return "–"
	}
	text := bold(fmt.Sprintf("%.2f", a/b), most > 0 && a/b > most)
	if a == 0 || len(runs) == 1 && len(others) == 1 {
		return text
	}
	sure := math.Hypot(spreadA/a/math.Sqrt(float64(len(runs))), spreadB/b/math.Sqrt(float64(len(others))))
	return fmt.Sprintf("%s ± %.2f", text, sure*a/b)
}

func bold(text string, missed bool) string {
	if missed {
		return "**" + text + "**"
	}
	return text
}

// whole formats a number of seconds as 12,345.
func whole(seconds float64) string {
	text := fmt.Sprintf("%.0f", seconds)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// written returns a page with its table replaced. A page without the two lines gets them and the table at its end.
func written(page, table string) string {
	before, rest, ok := strings.Cut(page, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return strings.TrimRight(page, "\n") + "\n\n" + from + table + to
	}
	return before + from + table + to + after
}
