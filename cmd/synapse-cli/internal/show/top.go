package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file prints the page of `top`: three lines about the nodes, and the unfinished jobs.

// TopHead is the number of lines above the jobs.
const TopHead = 5

var topColumns = []column[job]{
	{head: "JOB", cell: job.id},
	{head: "NAME", cell: func(j job) string { return j.spec().Called() }},
	{head: "OWNER", drop: 5, cell: func(j job) string { return orDash(j.GetRecord().GetOwner().GetName()) }},
	{head: "QUEUE", drop: 1, cell: func(j job) string { return orDash(j.spec().GetQueue()) }},
	{head: "PHASE", cell: job.GetPhase, paint: func(j job) string { return phaseColour(j.GetPhase()) }},
	{head: "GPUS", right: true, cell: job.gpus},
	{head: "TASKS", drop: 4, right: true, cell: job.tasks},
	{head: "RUNTIME", drop: 3, right: true, cell: job.ran},
	{head: "AGE", drop: 2, right: true, cell: job.age},
	{head: "REASON", times: true, cell: job.why},
}

// stock holds the sums over all nodes.
type stock struct {
	up, out, dead             int
	total, used, free, broken int64 // GPUs in thousandths; free counts only schedulable nodes
}

func stockOf(nodes []*messages.NodeStatus) (s stock) {
	for _, n := range nodes {
		total := n.GetRecord().GetAnnouncement().GetTotal().GetMilliGpu()
		broken := min(int64(len(n.GetLedger().GetWithdrawnGpus()))*1000, total)
		s.total += total
		if n.GetPhase() != messages.NodeUp {
			s.dead++
			continue
		}
		s.up++
		free := min(n.GetLedger().GetFree().GetMilliGpu(), total-broken)
		s.broken += broken
		s.used += total - broken - free
		if n.GetClosed() != "" {
			s.out++
		} else {
			s.free += free
		}
	}
	return s
}

// Top prints the page with at most this many jobs; 0: all.
func Top(
	w io.Writer, s Style, server string, nodes []*messages.NodeStatus, jobs []*messages.JobStatus, most int,
) error {
	have := stockOf(nodes)
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, compareTop)
	waiting, holding := 0, 0
	var wanted int64
	for _, j := range jobs {
		if messages.Waits(j.GetPhase()) {
			waiting++
			wanted += messages.Asked(j.GetRecord().GetSpec(), (*messages.Resources).GetMilliGpu)
		} else {
			holding++
		}
	}
	machines := fmt.Sprintf("nodes     %d up", have.up)
	for _, part := range []struct {
		n    int
		word string
	}{{have.out, "unschedulable"}, {have.dead, "unreachable"}} {
		if part.n > 0 {
			machines += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	gpus := fmt.Sprintf("%s of %s in use, %s free", milli(have.used), milli(have.total), milli(have.free))
	if have.broken > 0 {
		gpus += ", " + milli(have.broken) + " broken"
	}
	gpus = "gpus      " + bar(s, have.used, have.total, len(gpus)) + gpus
	head := fmt.Sprintf("%s at %s\n%s\n%s\njobs      %d hold resources, %d wait for %s GPUs%s\n\n",
		server, s.local(stamp(s.NowMs)), machines, gpus, holding, waiting, milli(wanted), idleWords(jobs))
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	hidden := 0
	if most > 0 && len(jobs) > most {
		hidden = len(jobs) - most + 1 // one line is needed for the text about hidden jobs
		jobs = jobs[:most-1]
	}
	rows := each(jobs, func(j *messages.JobStatus) job { return job{j, s.NowMs} })
	if err := table(w, s, topColumns, rows); err != nil || hidden == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %d more\n", hidden)
	return err
}

// compareTop sorts the running jobs first, by size, and then the waiting ones by priority and age.
func compareTop(a, b *messages.JobStatus) int {
	holds := func(j *messages.JobStatus) int64 {
		if messages.Waits(j.GetPhase()) {
			return -1
		}
		return messages.Asked(j.GetRecord().GetSpec(), (*messages.Resources).GetMilliGpu)
	}
	x, y := a.GetRecord(), b.GetRecord()
	if c := cmp.Compare(holds(b), holds(a)); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(y.GetSpec().GetPriority(), x.GetSpec().GetPriority()),
		cmp.Compare(x.GetArrival(), y.GetArrival()), cmp.Compare(x.GetId(), y.GetId()),
	)
}

// The width of a bar without its ends. A narrow terminal has a shorter bar, or none.
const (
	barWide  = 30
	barLeast = 5
)

// bar draws a bar for a part of a whole in front of a text of this length.
func bar(s Style, part, whole int64, text int) string {
	wide := barWide
	if s.Width > 0 {
		wide = min(barWide, s.Width-len("gpus      [] ")-text)
	}
	if wide < barLeast {
		return ""
	}
	full := 0
	if whole > 0 {
		full = int(part * int64(wide) / whole)
	}
	drawn := strings.Repeat("|", full)
	if s.Colour {
		drawn = painted(drawn, green)
	}
	return "[" + drawn + strings.Repeat(" ", wide-full) + "] "
}

// TopNodes prints the nodes with what is in use on each. The nodes with the most GPUs in use are first.
func TopNodes(w io.Writer, s Style, list []*messages.NodeStatus) error {
	used := func(n *messages.NodeStatus) int64 {
		return n.GetLedger().GetTotal().GetMilliGpu() - n.GetLedger().GetFree().GetMilliGpu()
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y *messages.NodeStatus) int {
		return cmp.Or(cmp.Compare(used(y), used(x)), cmp.Compare(x.GetRecord().GetId(), y.GetRecord().GetId()))
	})
	var columns []column[node]
	for _, c := range nodeColumns {
		if slices.Contains([]string{"NODE", "STATE", "GPUS", "CPUS", "MEMORY", "ALLOCS"}, c.head) {
			columns = append(columns, c)
		}
	}
	return table(w, s, columns, each(list, func(n *messages.NodeStatus) node { return node{n, s.NowMs} }))
}

// useColumns are what running jobs use. A dash means that it is not measured.
var useColumns = []column[job]{
	{head: "CPU", right: true, cell: func(j job) string { return orDash(j.GetUse().CPUWords()) }},
	{head: "MEMORY", right: true, cell: func(j job) string {
		if j.GetUse().GetTasks() == 0 {
			return "-"
		}
		return size(j.GetUse().GetMemoryBytes())
	}},
	{head: "GPU%", right: true, cell: func(j job) string { return orDash(j.GetUse().GPUWords()) }},
}

// TopJobs prints the unfinished jobs in the order of the page, with what they use.
func TopJobs(w io.Writer, s Style, list []*messages.JobStatus) error {
	list = slices.Clone(list)
	slices.SortFunc(list, compareTop)
	at := slices.IndexFunc(topColumns, func(c column[job]) bool { return c.head == "TASKS" })
	columns := slices.Insert(slices.Clone(topColumns), at, useColumns...)
	return table(w, s, columns, each(list, func(j *messages.JobStatus) job { return job{j, s.NowMs} }))
}
