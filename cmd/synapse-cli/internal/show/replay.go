package show

import (
	"fmt"
	"io"

	"github.com/yi-json/synapse/sim/record"
)

// This file owns how replayed workloads look.

// replays are what -o json shows.
type replays struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Runs       []*record.Result `json:"runs"`
}

// Replays shows the figures of each run.
func Replays(w io.Writer, s Style, results []*record.Result) error {
	if s.Format != "" {
		return Object(w, s.Format, replays{"synapse/v1", "Simulation", results})
	}
	if err := table(w, s, replayColumns, results); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "waits in seconds; util, rack, frag, idle-fit: shares")
	return err
}

var replayColumns = []column[*record.Result]{
	{head: "POLICY", cell: func(r *record.Result) string { return r.Policy }},
	{head: "JOBS", right: true, cell: func(r *record.Result) string { return fmt.Sprint(r.Jobs) }},
	{head: "UNFINISHED", right: true, cell: func(r *record.Result) string { return fmt.Sprint(r.Unfinished) }},
	{head: "WAIT", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.0f", r.WaitAvg) }},
	{head: "P95", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.0f", r.WaitP95) }},
	{head: "P99", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.0f", r.WaitP99) }},
	{head: "MAX", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.0f", r.WaitMax) }},
	{head: "GANGS", right: true, cell: func(r *record.Result) string { return known("%.0f", r.WaitMultiAvg) }},
	{head: "JCT", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.0f", r.JCTAvg) }},
	{head: "UTIL", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.3f", r.Util) }},
	{head: "RACK", right: true, cell: func(r *record.Result) string { return known("%.2f", r.Rack) }},
	{head: "FRAG", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.3f", r.Frag) }},
	{head: "IDLE-FIT", right: true, cell: func(r *record.Result) string { return fmt.Sprintf("%.3f", r.IdleFit) }},
}

// known is a figure, or a dash where there is none.
func known(format string, figure *float64) string {
	if figure == nil {
		return "-"
	}
	return fmt.Sprintf(format, *figure)
}
