package show

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/yi-json/synapse/sim/record"
)

// This file prints two replays next to each other.

// comparison is one value of a policy in two replays.
type comparison struct {
	Policy string   `json:"policy"`
	Figure string   `json:"metric"`
	A      *Mean    `json:"a"`
	B      *Mean    `json:"b"`
	Change *float64 `json:"change"` // relative to A

	format string
}

// Compare prints the values of two replays next to each other: for the policies that both contain, or for the only
// policy of each.
func Compare(w io.Writer, s Style, a, b []*record.Result) error {
	var rows []comparison
	policiesOfB := ByPolicy(b)
	one := len(ByPolicy(a)) == 1 && len(policiesOfB) == 1
	for _, runs := range ByPolicy(a) {
		for _, others := range policiesOfB {
			name := runs[0].Policy
			switch {
			case others[0].Policy == name:
			case one:
				name += " → " + others[0].Policy
			default:
				continue
			}
			rows = append(rows, compared(name, runs, others)...)
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("no policy occurs in both replays")
	}
	if s.Format != "" {
		return Object(w, s.Format, map[string]any{"apiVersion": "synapse/v1", "kind": "Comparison", "metrics": rows})
	}
	return table(w, s, []column[comparison]{
		{head: "POLICY", cell: func(c comparison) string { return c.Policy }},
		{head: "METRIC", cell: func(c comparison) string { return strings.ReplaceAll(c.Figure, "_", "-") }},
		{head: "A", right: true, cell: func(c comparison) string { return c.said(c.A) }},
		{head: "B", right: true, cell: func(c comparison) string { return c.said(c.B) }},
		{head: "CHANGE", right: true, cell: func(c comparison) string {
			if c.Change == nil {
				return "-"
			}
			return fmt.Sprintf("%+.1f%%", 100**c.Change)
		}},
	}, rows)
}

// counts lists the values that must be similar in both replays before the others can be compared.
var counts = []figure{
	{"jobs", "JOBS", "%.0f", func(r *record.Result) *float64 { n := float64(r.Jobs); return &n }},
	{"unfinished", "UNFINISHED", "%.0f", func(r *record.Result) *float64 { n := float64(r.Unfinished); return &n }},
}

func compared(name string, a, b []*record.Result) []comparison {
	var rows []comparison
	for _, f := range slices.Concat(counts, figuresOf(slices.Concat(a, b))) {
		c := comparison{Policy: name, Figure: f.key, format: f.format}
		if m, ok := f.mean(a); ok {
			c.A = &m
		}
		if m, ok := f.mean(b); ok {
			c.B = &m
		}
		if c.A != nil && c.B != nil && c.A.Mean != 0 {
			change := (c.B.Mean - c.A.Mean) / math.Abs(c.A.Mean)
			c.Change = &change
		}
		rows = append(rows, c)
	}
	return rows
}

// said formats a mean, with its spread if there is one.
func (c comparison) said(m *Mean) string {
	switch {
	case m == nil:
		return "-"
	case m.Spread > 0:
		return fmt.Sprintf(c.format+" ± "+c.format, m.Mean, m.Spread)
	}
	return fmt.Sprintf(c.format, m.Mean)
}
