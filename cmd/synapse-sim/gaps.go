package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/sim"
)

// This file prints the table of -gaps: how much each invariant left unchecked. Package sim counts the values.

// widest limits the printed reasons per invariant.
const widest = 3

// writeGaps prints one line for each invariant with exceptions that applied to any job.
func writeGaps(out io.Writer, gaps []sim.Gap) {
	fmt.Fprintf(out, "%-28s %12s %12s %7s  %s\n", "invariant", "job-seconds", "unchecked", "share", "widest reasons")
	for _, g := range gaps {
		lost := g.Lost()
		all := g.Judged + lost
		if all == 0 {
			continue
		}
		var why []string
		for _, reason := range g.Reasons() {
			if len(why) < widest {
				why = append(why, fmt.Sprintf("%s %.1f%%", reason, 100*g.Unchecked[reason].Seconds()/all.Seconds()))
			}
		}
		fmt.Fprintf(out, "%-28s %12.0f %12.0f %6.1f%%  %s\n", g.Name, all.Seconds(), lost.Seconds(),
			100*lost.Seconds()/all.Seconds(), strings.Join(why, "; "))
	}
}
