package show

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/yi-json/synapse/sim/record"
)

// This file prints replayed workloads.

// replays is the object of -o json.
type replays struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Runs       []*record.Result `json:"runs"`
	Means      []policyMeans    `json:"means"`
}

// policyMeans holds the values of all runs of one policy.
type policyMeans struct {
	Policy  string          `json:"policy"`
	Runs    int             `json:"runs"`
	Figures map[string]Mean `json:"metrics"`
}

// Mean is a value over several runs. Its spread is the standard deviation.
type Mean struct {
	Mean   float64 `json:"mean"`
	Spread float64 `json:"spread"`
	Least  float64 `json:"min"`
	Most   float64 `json:"max"`
}

// figure is a value that a run computes.
type figure struct {
	key, head, format string
	of                func(*record.Result) *float64 // nil: no value
}

var figures = []figure{
	{"wait_avg", "WAIT", "%.0f", func(r *record.Result) *float64 { return &r.WaitAvg }},
	{"wait_p95", "P95", "%.0f", func(r *record.Result) *float64 { return &r.WaitP95 }},
	{"wait_p99", "P99", "%.0f", func(r *record.Result) *float64 { return &r.WaitP99 }},
	{"wait_max", "MAX", "%.0f", func(r *record.Result) *float64 { return &r.WaitMax }},
	{"wait_multi_avg", "GANGS", "%.0f", func(r *record.Result) *float64 { return r.WaitMultiAvg }},
	{"jct_avg", "JCT", "%.0f", func(r *record.Result) *float64 { return &r.JCTAvg }},
	{"util", "UTIL", "%.3f", func(r *record.Result) *float64 { return &r.Util }},
	{"rack", "RACK", "%.2f", func(r *record.Result) *float64 { return r.Rack }},
	{"frag", "FRAG", "%.3f", func(r *record.Result) *float64 { return &r.Frag }},
	{"idle_fit", "IDLE-FIT", "%.3f", func(r *record.Result) *float64 { return &r.IdleFit }},
}

// stopFigures lists the values that are printed if jobs may be preempted.
var stopFigures = []figure{
	{"preemptions", "PREEMPTIONS", "%.0f", func(r *record.Result) *float64 { return r.Preemptions }},
	{"lost_gpu_h", "LOST-GPU-H", "%.0f", func(r *record.Result) *float64 { return r.LostGPUH }},
}

// figuresOf returns the values that at least one of these runs has.
func figuresOf(results []*record.Result) []figure {
	if slices.ContainsFunc(results, func(r *record.Result) bool { return r.Preemptions != nil }) {
		return slices.Concat(figures, stopFigures)
	}
	return figures
}

// mean computes the mean of a value over the runs that have it.
func (f figure) mean(runs []*record.Result) (m Mean, ok bool) {
	var all []float64
	for _, r := range runs {
		if x := f.of(r); x != nil {
			all = append(all, *x)
			m.Mean += *x
		}
	}
	if len(all) == 0 {
		return m, false
	}
	m.Mean /= float64(len(all))
	m.Least, m.Most = slices.Min(all), slices.Max(all)
	for _, x := range all {
		m.Spread += (x - m.Mean) * (x - m.Mean)
	}
	m.Spread = math.Sqrt(m.Spread / float64(max(len(all)-1, 1)))
	return m, true
}

// ByPolicy groups runs by policy, in the order of the request.
func ByPolicy(results []*record.Result) [][]*record.Result {
	var all [][]*record.Result
	for _, r := range results {
		i := slices.IndexFunc(all, func(runs []*record.Result) bool { return runs[0].Policy == r.Policy })
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], r)
	}
	return all
}

// Replays prints the values of each policy. For several runs it prints means and spreads.
func Replays(w io.Writer, s Style, results []*record.Result) error {
	policies := ByPolicy(results)
	if s.Format != "" {
		out := replays{"synapse/v1", "Simulation", results, nil}
		for _, runs := range policies {
			out.Means = append(out.Means, meansOf(runs))
		}
		return Object(w, s.Format, out)
	}
	lines := replayLines(results, policies)
	if err := table(w, s, replayColumns(results), lines); err != nil {
		return err
	}
	units := "waits in seconds; util, rack, frag, idle-fit: shares"
	if len(figuresOf(results)) > len(figures) {
		units += "; the wait of a stopped job includes all time without progress"
	}
	_, err := fmt.Fprintln(w, units)
	return err
}

// ReplayCells returns the headers and the cells of the table of replays, for other output formats.
func ReplayCells(results []*record.Result) (headed []string, cells [][]string) {
	columns := replayColumns(results)
	for _, l := range replayLines(results, ByPolicy(results)) {
		var row []string
		for _, c := range columns {
			row = append(row, c.cell(l))
		}
		cells = append(cells, row)
	}
	return heads(columns), cells
}

func meansOf(runs []*record.Result) policyMeans {
	p := policyMeans{runs[0].Policy, len(runs), map[string]Mean{}}
	for _, f := range figuresOf(runs) {
		if m, ok := f.mean(runs); ok {
			p.Figures[f.key] = m
		}
	}
	return p
}

// replayLines returns the lines of all policies, after the line with the real waiting times.
func replayLines(results []*record.Result, policies [][]*record.Result) (lines []replayLine) {
	if len(results) > 0 && results[0].Real != nil {
		lines = append(lines, realLine(results[0]))
	}
	for _, runs := range policies {
		lines = append(lines, policyLines(runs)...)
	}
	return lines
}

// replayLine is a line of the table.
type replayLine struct {
	name, jobs, open string
	of               func(figure) string
}

func replayColumns(results []*record.Result) []column[replayLine] {
	columns := []column[replayLine]{
		{head: "POLICY", cell: func(l replayLine) string { return l.name }},
		{head: "JOBS", right: true, cell: func(l replayLine) string { return l.jobs }},
		{head: "UNFINISHED", right: true, cell: func(l replayLine) string { return l.open }},
	}
	for _, f := range figuresOf(results) {
		columns = append(columns, column[replayLine]{head: f.head, right: true,
			cell: func(l replayLine) string { return l.of(f) }})
	}
	return columns
}

// policyLines returns the values of a policy, with the spread of several runs.
func policyLines(runs []*record.Result) []replayLine {
	said := func(value func(Mean) float64) func(figure) string {
		return func(f figure) string {
			if m, ok := f.mean(runs); ok {
				return fmt.Sprintf(f.format, value(m))
			}
			return "-"
		}
	}
	first := runs[0]
	lines := []replayLine{{first.Policy, fmt.Sprint(first.Jobs), fmt.Sprint(first.Unfinished),
		said(func(m Mean) float64 { return m.Mean })}}
	if len(runs) > 1 {
		lines = append(lines, replayLine{fmt.Sprintf("± of %d runs", len(runs)), "", "",
			said(func(m Mean) float64 { return m.Spread })})
	}
	return lines
}

// realLine returns how long the jobs really waited, for comparison with the replay.
func realLine(r *record.Result) replayLine {
	waits := &record.Result{Waits: *r.Real}
	return replayLine{"as it was", fmt.Sprint(r.Real.Jobs), fmt.Sprint(r.Real.Unfinished), func(f figure) string {
		switch f.key {
		case "wait_avg", "wait_p95", "wait_p99", "wait_max", "jct_avg":
			return fmt.Sprintf(f.format, *f.of(waits))
		}
		return "-"
	}}
}
