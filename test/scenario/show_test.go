// This file holds the commands that show messages, log lines, processes, ledgers, and what users see.
package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/topology"
)

// letters shows the messages since the last look. Neighbours of one kind are one line, so the order in which two nodes
// answer does not matter. Repeated messages are omitted, unless all are requested.
func (s *stage) letters(l commandLine) string {
	var kinds []string
	if w := l.words(); len(w) > 0 && w[0] != "all" {
		kinds = strings.Split(w[0], ",")
	}
	var out []string
	type word struct {
		title   string
		machine int
		token   topology.Token
	}
	before := map[word]bool{}
	var last string
	count := map[int]int{}
	flush := func() {
		if last != "" {
			out = append(out, last+machinesIn(count))
		}
		clear(count)
	}
	for _, h := range s.heard {
		if kinds == nil && h.job == "" || kinds != nil && !slices.Contains(kinds, h.kind) {
			continue
		}
		n, title := s.title(h)
		if w := (word{title, n, h.token}); before[w] && !l.has("all") {
			continue
		} else {
			before[w] = true
		}
		if title != last {
			flush()
			last = title
		}
		count[n]++
	}
	flush()
	s.heard = nil
	return strings.Join(out, "\n")
}

// title returns a message without its node.
func (s *stage) title(h heard) (machine int, text string) {
	text = h.kind + detailOf(h.letter.Message)
	if h.job != "" && len(s.names) > 1 {
		text += " " + s.nameOf(h.job)
	}
	if c, ok := h.letter.Message.(interface{ GetOrder() *messages.Order }); ok && s.hosts > 1 {
		text += fmt.Sprintf(" (epoch %d)", c.GetOrder().GetEpoch())
	}
	if n := numberOf(h.letter.To); n > 0 {
		return n, text + " →"
	}
	return numberOf(h.letter.From), text + " ←"
}

// detailOf returns the most important value of a message.
func detailOf(m messages.Message) string {
	var exits []*messages.Exit
	word := ""
	switch m := m.(type) {
	case *messages.Refused:
		word = wordOf(m.Reason.String(), "REFUSAL_REASON_")
	case *messages.Commit:
		if word = ""; m.Uid != 0 {
			word = fmt.Sprintf("as %d", m.Uid)
		}
	case *messages.Warn:
		word = "nothing"
		if m.Cause != messages.Cause_CAUSE_UNSPECIFIED {
			left := time.Duration(m.LeftMs) * time.Millisecond
			word = wordOf(m.Cause.String(), "CAUSE_") + " in " + left.Round(time.Second).String()
		}
		if m.IdleMs > 0 {
			word = "idle for " + (time.Duration(m.IdleMs) * time.Millisecond).Round(time.Minute).String()
		}
		if m.Request != 0 {
			word = "save, " + word
		}
	case *messages.Stop:
		word = wordOf(m.Cause.String(), "CAUSE_")
	case *messages.Exited:
		exits = m.Exits
	case *messages.Ended:
		exits = m.Exits
	}
	for _, e := range exits {
		word = exitWord(e)
	}
	if word == "" {
		return ""
	}
	return "(" + word + ")"
}

func wordOf(enum, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(enum, prefix)), "_", " ")
}

func exitWord(e *messages.Exit) string {
	switch {
	case e.Oom:
		return "out of memory"
	case e.Kind == messages.ExitKind_EXIT_KIND_EXITED:
		return "exit " + strconv.Itoa(int(e.Code))
	}
	return wordOf(e.Kind.String(), "EXIT_KIND_")
}

func machinesIn(count map[int]int) string {
	var numbers []int
	for n := range count { //order: sorted below
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	out := ""
	for _, n := range numbers {
		out += " n" + strconv.Itoa(n)
		if count[n] > 1 {
			out += "×" + strconv.Itoa(count[n])
		}
	}
	return out
}

// lines shows the log lines since the last look.
func (s *stage) lines(l commandLine) string {
	want := strings.TrimSpace(l.d.Input)
	if w := l.words(); len(w) > 0 {
		want = w[0]
	}
	var out []string
	for _, x := range s.said {
		who := s.plain(x.who)
		if s.hosts == 1 && strings.HasPrefix(who, "scheduler") {
			who = "scheduler"
		}
		if text := who + ": " + s.plain(x.text); strings.Contains(text, want) {
			out = append(out, text)
		}
	}
	s.said = nil
	return strings.Join(out, "\n")
}

// which returns the nodes that a command names: one, or all.
func (s *stage) which(l commandLine) []int {
	if len(l.words()) > 0 {
		return []int{l.machine(0)}
	}
	var all []int
	for n := range s.machines {
		all = append(all, n+1)
	}
	return all
}

func (s *stage) processes(l commandLine) string {
	var out []string
	for _, n := range s.which(l) {
		names := s.w.Processes(n)
		for i := range names {
			names[i] = s.plain(names[i])
		}
		slices.Sort(names)
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("n%d: %s", n, strings.Join(names, " ")))
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, "\n")
}

// told shows the warnings that running tasks got, and the number of signals.
func (s *stage) told(l commandLine) string {
	var out []string
	for _, n := range s.which(l) {
		for _, told := range s.w.Told(n) {
			out = append(out, fmt.Sprintf("n%d: %s", n, s.plain(told)))
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, "\n")
}

// uids shows the UIDs of the leaders' range under which nodes keep files.
func (s *stage) uids(l commandLine) string {
	var out []string
	for _, n := range s.which(l) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("n%d: %s", n, strings.Trim(fmt.Sprint(s.w.UIDs(n)), "[]"))))
	}
	return strings.Join(out, "\n")
}

// ledger shows a node's own ledger, in whole GPUs, CPUs and GiB.
func (s *stage) ledger(l commandLine) string {
	var out []string
	for _, n := range s.which(l) {
		book := s.w.Ledger(n)
		if book == nil {
			out = append(out, fmt.Sprintf("n%d: its agent is down", n))
			continue
		}
		text := fmt.Sprintf("n%d: free %s", n, amountWords(book.Books().Free))
		if gone := book.Books().Withdrawn.MilliGPU; gone > 0 {
			text += fmt.Sprintf("; withdrawn gpu=%g", float64(gone)/topology.WholeGPU)
		}
		if n := len(book.Allocations()); n > 8 {
			out = append(out, fmt.Sprintf("%s; %d slices", text, n))
			continue
		}
		for _, sl := range book.Allocations() {
			var sum topology.Resources
			for _, g := range sl.Grants {
				sum = sum.Plus(g.Amount)
			}
			text += fmt.Sprintf("; %s %v %s", s.nameOf(string(sl.Job)), sl.State, amountWords(sum))
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func amountWords(r topology.Resources) string {
	return fmt.Sprintf("gpu=%g cpu=%g mem=%d",
		float64(r.MilliGPU)/topology.WholeGPU, float64(r.MilliCPU)/1000, r.MemoryBytes>>30)
}

// job shows what a user sees of a job.
func (s *stage) job(l commandLine) string {
	name := l.first(0)
	out := "no answer"
	s.asked(actors.MirrorPath, &messages.GetJob{Job: s.order(l, name).ID()}, func(m messages.Message) {
		r := m.(*messages.GetJobReply)
		if r.Job == nil {
			out = fmt.Sprintf("%s: %s; in the store: %s", name, codeOf(r.Outcome), stateOf(s.w.Stored(s.order(l, name))))
			return
		}
		out = s.jobWords(name, r.Job)
	})
	return s.plain(out)
}

func (s *stage) jobWords(name string, j *messages.JobStatus) string {
	text := fmt.Sprintf("%s: %s", name, j.Phase)
	if r := j.Record; r.Runs > 0 {
		text += fmt.Sprintf(", run %d", r.Runs)
		if r.Failures > 0 {
			text += fmt.Sprintf(", failures %d", r.Failures)
		}
		if r.InfraRestarts > 0 {
			text += fmt.Sprintf(", not its fault %d", r.InfraRestarts)
		}
		if r.Preemptions > 0 {
			text += fmt.Sprintf(", preempted %d", r.Preemptions)
		}
		if r.ExitCode != 0 {
			text += fmt.Sprintf(", exit code %d", r.ExitCode)
		}
	}
	if a := j.Attempt; a.GetSaved() != nil {
		text += fmt.Sprintf(", saved in run %d", a.Run)
	}
	if m := j.Attempt.GetMissed(); m != nil {
		text += fmt.Sprintf(", missed by rank %d (%d of %d acknowledged, late: %t)", m.Rank, m.Acknowledged, m.Required,
			m.Late)
	}
	if j.Record.LimitByDefault {
		text += ", time limit by default"
	}
	if p := j.Record.Promise; p != nil {
		text += ", promised"
		for _, k := range p.Kept {
			text += " " + k.Node
		}
		if p.LeftMs == 0 {
			text += " without a bound"
		}
		for _, v := range p.Victims {
			text += ", stops " + s.nameOf(v.Job)
		}
	}
	if j.Reason != "" {
		text += ": " + j.Reason
	}
	text += placesIn(j.Attempt)
	if len(j.Debts) > 0 {
		text += "\n  owed by " + strings.Join(j.Debts, " ")
	}
	return text
}

// placesIn returns the nodes of an attempt's members, how each ended, and the attempt, or nothing if there is none.
func placesIn(a *messages.AttemptRecord) string {
	text := ""
	for _, p := range a.GetPlaces() {
		text += fmt.Sprintf("\n  rank %d on %s", p.Rank, p.Node)
		if p.Exit != nil {
			text += ": " + exitWord(p.Exit)
		}
	}
	if e := a.GetEnd(); e != nil {
		text += "\n  ended: " + wordOf(e.Cause.String(), "CAUSE_")
	}
	return text
}

// ran shows the total run time of a job's ended attempts, in whole seconds.
func (s *stage) ran(l commandLine) string {
	ms := s.w.Stored(s.order(l, l.first(0))).GetRanMs()
	return fmt.Sprintf("%d s", (ms+500)/1000)
}

// evidence shows the store's records of every attempt.
func (s *stage) evidence(l commandLine) string {
	var out []string
	for i, a := range s.w.Attempts(s.order(l, l.first(0))) {
		out = append(out, fmt.Sprintf("%d:%s", i+1, placesIn(a)))
	}
	return s.plain(strings.Join(out, "\n"))
}

// nodes shows what a user sees of the nodes.
func (s *stage) nodes(commandLine) string {
	var out []string
	s.asked(actors.MirrorPath, &messages.ListNodes{}, func(m messages.Message) {
		for _, n := range m.(*messages.ListNodesReply).Nodes {
			text := n.Record.GetId() + ": " + n.Phase
			if n.Closed != "" && n.Closed != n.Phase {
				text += ", closed: " + n.Closed
			}
			if n.Record.GetClosing() != nil {
				text += ", " + messages.ClosesAt(n.Record)
			}
			if note := n.Record.GetNote(); note != nil {
				text += ", note: " + note.Reason
			}
			for _, t := range n.Debts {
				text += ", owes the end of " + s.nameOf(s.owner[messages.FromToken(t)])
			}
			out = append(out, text)
		}
	})
	return s.plain(strings.Join(out, "\n"))
}

func (s *stage) explain(l commandLine) string {
	out := "no answer"
	s.asked(actors.MirrorPath, &messages.ExplainJob{Job: s.order(l, l.first(0)).ID()}, func(m messages.Message) {
		out = explain.Of(m.(*messages.ExplainJobReply).Explanation).Text(0)
	})
	return s.plain(strings.TrimSpace(out))
}

// attempts shows, for each committed token, its nodes and the cause of its stop.
func (s *stage) attempts(l commandLine) string {
	var out []string
	for i, t := range s.attemptsOf(l.first(0), "Commit") {
		nodes, causes := map[int]int{}, []string{}
		for _, h := range s.all {
			switch m := h.letter.Message.(type) {
			case *messages.Commit:
				if h.token == t {
					nodes[numberOf(h.letter.To)] = 1
				}
			case *messages.Stop:
				if cause := wordOf(m.Cause.String(), "CAUSE_"); h.token == t && !slices.Contains(causes, cause) {
					causes = append(causes, cause)
				}
			}
		}
		text := fmt.Sprintf("%d on%s", i+1, machinesIn(nodes))
		if len(causes) > 0 {
			text += ", stopped: " + strings.Join(causes, ", ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// attemptsOf returns the tokens of a job with a message of the kind, in order of appearance.
func (s *stage) attemptsOf(name, kind string) []topology.Token {
	var out []topology.Token
	for _, h := range s.all {
		if h.kind == kind && s.nameOf(h.job) == name && !slices.Contains(out, h.token) {
			out = append(out, h.token)
		}
	}
	return out
}

// tokens reports whether each attempt's token is greater than the one before.
func (s *stage) tokens(l commandLine) string {
	all := s.attemptsOf(l.first(0), "Reserve")
	for i := 1; i < len(all); i++ {
		if all[i].Compare(all[i-1]) <= 0 {
			return fmt.Sprintf("%v came after %v", all[i], all[i-1])
		}
	}
	epochs := map[uint64]bool{}
	for _, t := range all {
		epochs[t.Epoch] = true
	}
	return fmt.Sprintf("%d tokens of %d leaders, each greater than the last", len(all), len(epochs))
}

func (s *stage) died(commandLine) string {
	if s.deaths == nil {
		return "nobody"
	}
	slices.Sort(s.deaths)
	return strings.Join(s.deaths, "\n")
}

// ids reports whether each job has a unique ID.
func (s *stage) ids(commandLine) string {
	distinct := map[string]bool{}
	for _, o := range s.orders { //order: only counted
		distinct[o.ID()] = true
	}
	return fmt.Sprintf("%d jobs, %d ids", len(s.orders), len(distinct))
}

// waits shows the time from a message of one attempt to a message of the next.
func (s *stage) waits(l commandLine) string {
	from, to := l.first(0), l.first(1)
	tokens := s.attemptsOf(l.first(2), to)
	first := func(t topology.Token, kind string) time.Duration {
		return s.all[slices.IndexFunc(s.all, func(h heard) bool { return h.kind == kind && h.token == t })].at
	}
	var out []string
	for i := 1; i < len(tokens); i++ {
		since := first(tokens[i], to) - first(tokens[i-1], from)
		out = append(out, fmt.Sprintf("%d s", int(since.Round(time.Second)/time.Second)))
	}
	return strings.Join(out, ", ")
}

// counted reports whether a counter without any other effect increased.
func (s *stage) counted(l commandLine) string {
	if s.w.Counters()[l.first(0)] > 0 {
		return "yes"
	}
	return "no"
}

// reserved counts the Reserves to a node since the last look.
func (s *stage) reserved(l commandLine) string {
	n := l.machine(0)
	defer delete(s.reserves, n)
	return strconv.Itoa(s.reserves[n])
}
