package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/yi-json/synapse/sim/record"
)

// This file owns how the figures look: as the tables of docs/quality.md.

const (
	head = "| | wait, mean | over `sjf`'s | over `easy`'s | gangs' | over `easy`'s | p99 | longest | over `easy`'s | " +
		"util | rack | free while a job fits |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	instrumentHead = "| mean wait in seconds | fifo | greedy | easy | sjf |\n|---|---|---|---|---|\n"

	// Between these two lines of the page stands the table that is replaced.
	from = "<!-- written by make quality -->\n"
	to   = "<!-- end of what make quality writes -->\n"
)

// row is a line of the table: the means of the default policy's runs, with the spread of its mean wait, beside one run
// of each of the others.
func row(name string, g goal, runs []*record.Result, easy, sjf *record.Result) string {
	mean := func(of func(*record.Result) float64) float64 {
		sum := 0.0
		for _, r := range runs {
			sum += of(r)
		}
		return sum / float64(len(runs))
	}
	wait := mean(func(r *record.Result) float64 { return r.WaitAvg })
	spread := 0.0
	for _, r := range runs {
		spread += (r.WaitAvg - wait) * (r.WaitAvg - wait)
	}
	said := whole(wait)
	if len(runs) > 1 {
		said += " ± " + whole(math.Sqrt(spread/float64(len(runs)-1)))
	}
	gangs := mean(func(r *record.Result) float64 { return known(r.WaitMultiAvg) })
	longest := mean(func(r *record.Result) float64 { return r.WaitMax })
	rack := mean(func(r *record.Result) float64 { return known(r.Rack) })
	cells := []string{name, said, ratio(wait, sjf.WaitAvg, g.sjf), ratio(wait, easy.WaitAvg, g.easy), whole(gangs),
		ratio(gangs, known(easy.WaitMultiAvg), g.gangs),
		whole(mean(func(r *record.Result) float64 { return r.WaitP99 })), whole(longest),
		ratio(longest, easy.WaitMax, g.longest), fmt.Sprintf("%.3f", mean(func(r *record.Result) float64 { return r.Util })),
		bold(fmt.Sprintf("%.2f", rack), rack < g.rack),
		fmt.Sprintf("%.3f", mean(func(r *record.Result) float64 { return r.IdleFit })),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func known(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}

// ratio is how many times as much one is, or a dash where there is nothing to compare with; bold if that is more than
// it is to be.
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

// whole is a number of seconds as people read it: 12,345.
func whole(seconds float64) string {
	text := fmt.Sprintf("%.0f", seconds)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// written is a page with its table replaced. A page without the two lines gets it at its end, between them.
func written(page, table string) string {
	before, rest, ok := strings.Cut(page, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return strings.TrimRight(page, "\n") + "\n\n" + from + table + to
	}
	return before + from + table + to + after
}
