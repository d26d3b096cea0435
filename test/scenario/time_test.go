// This file holds the commands for time in a scenario, and the conditions to wait for.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/topology"
)

func (s *stage) run(l commandLine) string {
	s.w.RunFor(l.span(0))
	return s.violations()
}

func (s *stage) elapsed(commandLine) string {
	since := s.w.Now() - s.lastLook
	s.lastLook = s.w.Now()
	return fmt.Sprintf("%d s", int(since.Round(time.Second)/time.Second))
}

// until waits for a condition.
func (s *stage) until(l commandLine) string {
	within := l.time("within", 0)
	if within == 0 {
		l.d.Fatalf(l.t, "until wants within=")
	}
	if s.w.StepUntil(s.holds(l), within) {
		return "yes" + broken(s.violations())
	}
	return fmt.Sprintf("no, not within %s%s", within, broken(s.violations()))
}

// never checks that a condition does not become true.
func (s *stage) never(l commandLine) string {
	during := l.time("for", 0)
	if during == 0 {
		l.d.Fatalf(l.t, "never wants for=")
	}
	if s.w.StepUntil(s.holds(l), during) {
		return "it happened" + broken(s.violations())
	}
	return "no" + broken(s.violations())
}

func broken(violations string) string {
	if violations == "" {
		return ""
	}
	return "\n" + violations
}

// holds returns the condition that a command names.
func (s *stage) holds(l commandLine) func() bool {
	began, from := len(s.all), len(s.said)
	switch what := l.first(0); what {
	case "running":
		o := s.order(l, l.first(1))
		return func() bool { return s.runs(o) }
	case "gone":
		o := s.order(l, l.first(1))
		return func() bool { return len(s.where(o)) == 0 }
	case "state":
		o, state := s.order(l, l.first(1)), strings.ReplaceAll(l.first(2), "-", "_")
		return func() bool { return stateOf(s.w.Stored(o)) == state }
	case "promised":
		o := s.order(l, l.first(1))
		return func() bool { return s.w.Stored(o).GetPromise() != nil }
	case "line":
		text := strings.TrimSpace(l.d.Input)
		return func() bool {
			return slices.ContainsFunc(s.said[from:], func(x said) bool { return strings.Contains(s.plain(x.text), text) })
		}
	case "letter":
		return s.letterHolds(l, began)
	case "processes":
		n, want := l.machine(1), l.number("is", 0)
		return func() bool { return len(s.w.Processes(n)) == want }
	case "node":
		n, want := l.machine(1), l.word("is", "member")
		return func() bool { return s.w.NodeState(n) == want }
	case "epoch":
		want := uint64(l.machine(1))
		return func() bool { return s.w.Epoch() >= want }
	case "free":
		n, want := l.machine(1), int64(l.number("gpu", 0))*topology.WholeGPU
		return func() bool { book := s.w.Ledger(n); return book != nil && book.Books().Free.MilliGPU >= want }
	default:
		l.d.Fatalf(l.t, "nobody can wait for %s", what)
		return nil
	}
}

// letterHolds counts messages about gangs from now on.
func (s *stage) letterHolds(l commandLine, began int) func() bool {
	kind, job, node, want := l.first(1), l.word("job", ""), l.number("node", 0), l.number("count", 1)
	return func() bool {
		n := 0
		for _, h := range s.all[began:] {
			about := max(numberOf(h.letter.From), numberOf(h.letter.To))
			if h.kind == kind && (job == "" || s.nameOf(h.job) == job) && (node == 0 || about == node) {
				n++
			}
		}
		return n >= want
	}
}

// where returns the nodes of a job's processes, one entry per process.
func (s *stage) where(o *sim.Order) []int {
	var out []int
	for n := 1; n <= s.machines; n++ {
		for _, p := range s.w.Processes(n) {
			if o.ID() != "" && strings.HasPrefix(p, o.ID()+"/") {
				out = append(out, n)
			}
		}
	}
	return out
}

// runs reports whether all members of a gang are processes, and the passed barrier is on disk.
func (s *stage) runs(o *sim.Order) bool {
	a := s.w.Attempt(o)
	if a == nil || a.End != nil || a.StartedUnixMs == 0 {
		return false
	}
	for _, p := range a.Places {
		if !slices.Contains(s.w.Processes(numberOf("node-"+p.Node)), fmt.Sprintf("%s/%d", o.ID(), p.Rank)) {
			return false
		}
	}
	return true
}

func stateOf(r *messages.JobRecord) string {
	return strings.ToLower(strings.TrimPrefix(r.GetState().String(), "JOB_STATE_"))
}
