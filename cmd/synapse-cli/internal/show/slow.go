package show

import (
	"fmt"
	"io"

	"github.com/yi-json/synapse/messages"
)

// This file prints the nodes with ranks that are slower than the other ranks of their gang.

// slowRow is a slow rank of a job.
type slowRow struct {
	*messages.SlowRank
	job *messages.JobStatus
}

var slowColumns = []column[slowRow]{
	{head: "NODE", cell: func(r slowRow) string { return oneLine(r.GetNode()) }},
	{head: "JOB", cell: func(r slowRow) string { return r.job.GetRecord().GetId() }},
	{head: "NAME", drop: 1, cell: func(r slowRow) string { return r.job.GetRecord().GetSpec().Called() }},
	{head: "OWNER", drop: 2, cell: func(r slowRow) string { return orDash(r.job.GetRecord().Whose()) }},
	{head: "RANK", right: true, cell: func(r slowRow) string { return fmt.Sprint(r.GetRank()) }},
	{head: "OF MEDIAN", right: true, cell: func(r slowRow) string {
		return fmt.Sprintf("%d.%02d", r.GetPercent()/100, r.GetPercent()%100)
	}},
	{head: "STEPS", right: true, cell: func(r slowRow) string { return fmt.Sprint(r.GetSteps()) }},
}

// SlowNodes prints a row for each slow rank on the given nodes, in the order of the nodes.
func SlowNodes(w io.Writer, s Style, nodes []*messages.NodeStatus, jobs []*messages.JobStatus) error {
	on := map[string][]slowRow{}
	for _, j := range jobs {
		for _, r := range j.GetProgress().GetSlow() {
			on[r.GetNode()] = append(on[r.GetNode()], slowRow{r, j})
		}
	}
	var rows []slowRow
	var slow []*messages.NodeStatus
	for _, n := range nodes {
		if here := on[n.GetRecord().GetId()]; len(here) > 0 {
			rows, slow = append(rows, here...), append(slow, n)
		}
	}
	if s.Format != "" && s.Format != "wide" || s.Quiet {
		return Nodes(w, s, slow)
	}
	return table(w, s, slowColumns, rows)
}
