package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
)

// This file measures the effect of each part of the default policy by disabling one part after another.

// eachPart stands for all parts, one after another, and for none.
const eachPart = "each"

// runParts replays the cases without one part of the default policy, or without each part in turn, and prints the
// results. It writes no page. docs/reports/quality-details.md has a separate table for them.
func (s study) runParts(out, progress io.Writer) error {
	parts := []string{s.without}
	if s.without == eachPart {
		parts = append([]string{""}, policy.Parts()...)
	}
	cases := published()
	if s.traces == "" {
		cases = drawn()
	}
	fmt.Fprint(out, head)
	for _, c := range cases {
		if c.full && !s.full || !strings.Contains(c.name, s.name) {
			continue
		}
		jobs, cluster, err := c.jobs(s.traces)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		others := map[string][]*record.Result{}
		for _, name := range []string{"easy", "sjf"} {
			if others[name], err = replays(jobs, cluster, name, "", s.times()); err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, name, err)
			}
		}
		for _, part := range parts {
			fmt.Fprintf(progress, "%s without %q\n", c.name, part)
			runs, err := replays(jobs, cluster, ours, part, s.times())
			if err != nil {
				return fmt.Errorf("%s without %q: %w", c.name, part, err)
			}
			name := c.name
			if part != "" {
				name += " without " + part
			}
			fmt.Fprint(out, row(name, c.goal, runs, others["easy"], others["sjf"]))
		}
	}
	return nil
}
