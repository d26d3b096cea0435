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

// row returns a line of the table: the means of the default policy's runs with the spread of its waits, next to one run
// of each other policy.
func row(name string, g goal, runs []*record.Result, easy, sjf *record.Result) string {
	of := func(figure func(*record.Result) float64) float64 {
		m, _ := mean(runs, figure)
		return m
	}
	wait, spread := mean(runs, func(r *record.Result) float64 { return r.WaitAvg })
	gangs, gangSpread := mean(runs, func(r *record.Result) float64 { return known(r.WaitMultiAvg) })
	p99, longest := of(func(r *record.Result) float64 { return r.WaitP99 }), of(waitMax)
	util := of(func(r *record.Result) float64 { return r.Util })
	rack := of(func(r *record.Result) float64 { return known(r.Rack) })
	cover := of(func(r *record.Result) float64 { return known(r.PromiseCover) })
	cells := []string{name, fmt.Sprint(len(runs)), within(wait, spread), ratio(wait, sjf.WaitAvg, g.sjf),
		ratio(wait, easy.WaitAvg, g.easy), within(gangs, gangSpread), ratio(gangs, known(easy.WaitMultiAvg), g.gangs),
		bold(whole(p99), g.p99 && p99 > max(easy.WaitP99, 1.3*sjf.WaitP99)), whole(longest),
		ratio(longest, easy.WaitMax, g.longest), bold(fmt.Sprintf("%.3f", util), util < easy.Util-0.06),
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

func waitMax(r *record.Result) float64 { return r.WaitMax }

func known(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}

// ratio formats a quotient, or a dash if the divisor is 0. It is bold if it exceeds most.
func ratio(a, b, most float64) string {
	if b == 0 {
		return "–"
	}
	return bold(fmt.Sprintf("%.2f", a/b), most > 0 && a/b > most)
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
