package explain

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file formats the rows about the start of a job, and about changes that would start it now.

// start formats the expected start, or why it is unknown, and the time when the job would fit.
func start(e *messages.Explanation) [][]string {
	var lines [][]string
	if text := e.GetStart().Starts(e.GetAtUnixMs()); text != "unknown" && !e.GetNever() {
		lines = texts(text) // otherwise no reason is known, and the other rows give the facts
	}
	if e.GetFitsByUnixMs() == 0 {
		return lines
	}
	var jobs []string
	all := e.GetFitsAfter()
	for _, j := range all[:min(len(all), linesMost)] {
		jobs = append(jobs, named(j))
	}
	if more := len(all) - len(jobs); more > 0 {
		jobs = append(jobs, strconv.Itoa(more)+" more")
	}
	verb := " have ended"
	if len(all) == 1 {
		verb = " has ended"
	}
	by := moment(e, e.GetFitsByUnixMs(), "time limit")
	return append(lines, []string{"fits by " + by + ", when " + list(jobs) + verb})
}

// queue formats the number of jobs ahead and their amount of work.
func queue(e *messages.Explanation) [][]string {
	if e.GetNever() {
		return nil
	}
	if work := e.GetStart().Queued(); work != "" {
		return texts(work)
	}
	ahead, waiting := int64(e.GetAhead()), counted(int64(e.GetWaiting()), "waiting job")
	switch {
	case e.GetWaiting() < 2 && ahead == 0:
		return nil // no other job waits
	case ahead == 0:
		return texts("first of " + waiting)
	case ahead == int64(e.GetWaiting()):
		return texts(counted(ahead, "job") + " ahead")
	}
	return texts(counted(ahead, "job") + " ahead, of " + waiting)
}

// dependencies lists the jobs that must end first.
func dependencies(e *messages.Explanation) (lines [][]string) {
	all := e.GetDependencies()
	for _, d := range all[:min(len(all), linesMost)] {
		end := "must succeed"
		switch d.GetEnd() {
		case messages.AfterEnd_AFTER_END_ANY:
			end = "must end"
		case messages.AfterEnd_AFTER_END_FAILED:
			end = "must fail"
		case messages.AfterEnd_AFTER_END_STARTED:
			end = "must start"
		}
		name, about := cells(d.GetJob())
		lines = append(lines, []string{name, about, strings.TrimPrefix(d.GetPhase()+", "+end, ", ")})
	}
	return append(lines, further(len(all)-len(lines), "job")...)
}

// changes lists the changes with which the job would start now, or those that are needed together.
func changes(e *messages.Explanation) (lines [][]string) {
	for _, r := range e.GetRelaxations() {
		text := r.GetText()
		if before := r.GetBefore(); len(before) > 0 {
			var jobs []string
			for _, j := range before {
				jobs = append(jobs, named(j))
			}
			text += " (the job ends before the reserved nodes are needed for " + list(jobs) + ")"
		}
		lines = append(lines, []string{text})
	}
	if len(lines) > 0 {
		return lines
	}
	var needed []string
	for _, c := range e.GetInTheWay() {
		needed = append(needed, must(c, e))
	}
	switch n := int(e.GetAtOnce()); {
	case n > 1 && n == len(needed):
		return texts("no single change is enough: " + list(needed))
	case n > 1:
		return texts("no single change is enough, " + strconv.Itoa(n) + " of these are: " + strings.Join(needed, ", "))
	case n == 0 && len(e.GetConflict()) > 1:
		for _, c := range e.GetConflict() {
			needed = append(needed, must(c, e)) // needed was empty: no small set of constraints is enough
		}
		return texts("no small change is enough: one of these, and more: " + strings.Join(needed, ", "))
	}
	return nil
}

// must formats the change of one constraint that would help.
func must(c *messages.Constraint, e *messages.Explanation) string {
	nodes := e.GetUnavailable()
	switch c.GetKind() {
	case "excluded":
		return "excluded nodes must be allowed"
	case "named":
		return "other nodes than the named ones must be allowed"
	case "apart":
		return "tasks must share nodes"
	case "memory":
		return "the job must ask for less memory"
	case "cpu":
		return "the job must ask for fewer CPUs"
	case "label":
		return "the job must not ask for " + c.GetName()
	case "gpu-type":
		return "another GPU type must be allowed"
	case "whole":
		return "split any must be allowed"
	case "unavailable":
		if len(nodes) == 1 && e.GetMoreUnavailable() == 0 {
			return nodes[0].GetNode() + " must return"
		}
		return "unavailable nodes must return"
	case "level":
		return "more than one " + c.GetName() + " must be allowed"
	case "reserved":
		return "reserved nodes must become free"
	case "others":
		return "other jobs must end"
	}
	return "the job must be smaller"
}
