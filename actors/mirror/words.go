package mirror

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns which changes of a job or a node users see, and the texts about them.

// wordedNodes is the number of nodes of a gang that a text names.
const wordedNodes = 8

// jobChanged reports whether users see a difference.
func jobChanged(a, b *messages.JobStatus) bool {
	was, is := a.GetRecord(), b.GetRecord()
	return a.GetPhase() != b.GetPhase() || a.GetReason() != b.GetReason() ||
		was.GetState() != is.GetState() || (was.GetHold() == nil) != (is.GetHold() == nil) ||
		(was.GetCancel() == nil) != (is.GetCancel() == nil) ||
		a.GetWarned().GetCause() != b.GetWarned().GetCause() ||
		a.GetWarned().GetEndsUnixMs() != b.GetWarned().GetEndsUnixMs() ||
		(a.GetWarned().GetIdleMs() > 0) != (b.GetWarned().GetIdleMs() > 0) ||
		attemptChanged(a.GetAttempt(), b.GetAttempt()) || !slices.Equal(a.GetDebts(), b.GetDebts())
}

// attemptChanged compares attempts and ignores the ranks. The ends of a thousand members are not a thousand changes of
// the job. The phase of the job shows its start before the start time is written.
func attemptChanged(a, b *messages.AttemptRecord) bool {
	return messages.FromToken(a.GetToken()) != messages.FromToken(b.GetToken()) ||
		(a.GetEnd() == nil) != (b.GetEnd() == nil)
}

func nodeChanged(a, b *messages.NodeStatus) bool {
	sameToken := func(a, b *messages.Token) bool { return messages.FromToken(a) == messages.FromToken(b) }
	return a.GetPhase() != b.GetPhase() || a.GetClosed() != b.GetClosed() ||
		messages.SuspicionWords(a.GetSuspicion()) != messages.SuspicionWords(b.GetSuspicion()) ||
		a.GetRecord().GetClosesUnixMs() != b.GetRecord().GetClosesUnixMs() ||
		totalChanged(a, b) || !slices.EqualFunc(a.GetDebts(), b.GetDebts(), sameToken)
}

// totalChanged reports whether the usable resources of a node changed. Failed devices count, because jobs cannot use
// them.
func totalChanged(a, b *messages.NodeStatus) bool {
	return failedDevices(a) != failedDevices(b) ||
		!proto.Equal(a.GetRecord().GetAnnouncement().GetTotal(), b.GetRecord().GetAnnouncement().GetTotal())
}

// jobWords returns the state of a job as text, such as "job j-1 running on n1, n2".
func jobWords(s *messages.JobStatus) string {
	words := "job " + s.GetRecord().GetId() + " " + s.GetPhase()
	attempt := s.GetAttempt()
	if attempt != nil && attempt.GetEnd() == nil && !s.GetRecord().GetState().Terminal() {
		if names := placesOf(attempt); len(names) > 0 {
			words += " on " + someOf(names)
		}
	}
	switch {
	case s.GetPhase() == messages.PhaseHeld && s.GetReasonCode() == messages.WaitHeld.String():
		words = strings.TrimSuffix(words, s.GetPhase()) + strings.Replace(s.GetReason(), "Held", s.GetPhase(), 1)
	case s.GetReason() != "":
		words += actors.Because(strings.TrimPrefix(s.GetReason(), s.GetPhase()+": "))
	case s.GetRecord().GetHold() != nil && s.GetPhase() == messages.PhaseHeld:
		words += actors.Because(s.GetRecord().GetHold().GetReason())
	case attempt.GetEnd() != nil && !s.GetRecord().GetState().Terminal():
		words += actors.Because(attempt.GetEnd().GetDetail())
	}
	if attempt.GetEnd() != nil && attempt.GetEnd().GetRank() >= 0 {
		words += verdict.OthersEnded(attempt.GetVerdict())
	}
	switch w := s.GetWarned(); {
	case w.GetIdleMs() > 0:
		words += ", idle for " + messages.Span(w.IdleMs) + ": its tasks were notified"
	case w != nil:
		left := actors.Millis(max(w.EndsUnixMs-w.AtUnixMs, 0)).Round(time.Second)
		words += ", warned: " + actors.WordOf(w.Cause.String(), "CAUSE_") + " in " + left.String()
	}
	if owe := s.GetDebts(); len(owe) > 0 {
		words += "; the end is not confirmed by " + someOf(owe)
	}
	return words
}

// whyIdle returns what keeps a job out of the queue: its end, a hold, its backoff, or a node that has not confirmed the
// end of an earlier attempt.
func (m *Mirror) whyIdle(s *messages.JobStatus) messages.Reason {
	r := s.GetRecord()
	if r.GetState() != messages.JobState_JOB_STATE_QUEUED || !messages.Waits(s.GetPhase()) {
		return messages.Reason{Text: r.GetOutcome()}
	}
	now, next := m.p.Clock.WallMs(), r.GetNotBeforeUnixMs()
	again := " (retry at " + messages.Soon(next, now) + ")"
	switch {
	case r.GetHold() != nil:
		return messages.HeldBy(r.GetHold().GetBy().GetName(), r.GetHold().GetReason())
	case len(r.Awaits()) > 0:
		return m.depends(r.Awaits())
	case m.beginsLater(s):
		return messages.WaitBeginTime.Because(messages.Moment(r.BeginsUnixMs(), now))
	case len(s.GetDebts()) > 0:
		return unconfirmed(s.GetDebts())
	case next > now && messages.StartFailure(s) != "":
		return messages.FailedStart(s, again)
	case next > now && r.GetFailures() == 0:
		return messages.WaitUnconfirmed.Around("tasks may run on a node", again)
	case next > now:
		return messages.WaitBackoff.Because(actors.Counted(int(r.GetFailures()), "failure") + again)
	case m.waiting.idle.Text != "":
		return m.waiting.idle
	}
	if array := m.throttled(r.GetSpec().GetElement()); array != nil { // its array limits it before the queue does
		return mayBeNext(array)
	}
	return messages.WaitEvaluating.Because("the scheduler looks at the job next")
}

// unconfirmed returns the reason of a job whose last attempt may still run on some nodes.
func unconfirmed(nodes []string) messages.Reason {
	end := ""
	if more := len(nodes) - 1; more > 0 {
		end = " and " + actors.Counted(more, "more node")
	}
	return messages.WaitUnconfirmed.Around("last attempt may run on "+topology.Cut(nodes[0], dependencyColumns), end)
}

// dependencyColumns is the largest width of a name in a reason that names other jobs.
const dependencyColumns = 20

// depends returns the reason of a job that waits for the end of other jobs. It names the first one, and as many more as
// fit.
func (m *Mirror) depends(all []*messages.After) messages.Reason {
	var words []string
	for _, a := range all {
		text := m.called(a.GetJob(), false)
		switch a.GetEnd() {
		case messages.AfterEnd_AFTER_END_ANY:
			text = "end of " + text
		case messages.AfterEnd_AFTER_END_FAILED:
			text = "failure of " + text
		case messages.AfterEnd_AFTER_END_STARTED:
			text = "start of " + text
		}
		if phase := m.phaseOf(a.GetJob()); phase != "" {
			text += " " + phase
		}
		words = append(words, text)
	}
	for named := len(words); ; named-- {
		rest := ""
		if more := len(words) - named; more > 0 {
			rest = " and " + strconv.Itoa(more) + " more"
		}
		whole := messages.WaitDependency.Around(strings.Join(words[:named], ", "), rest)
		if named <= 1 || strings.Contains(whole.Text, words[named-1]+rest) {
			return whole
		}
	}
}

// called returns the name and the short ID of a job, and its owner if requested.
func (m *Mirror) called(job string, owned bool) string {
	s, ok := m.jobs.get(job)
	if !ok {
		return messages.ShortName(m.shortID(job), "", "")
	}
	owner := ""
	if owned {
		owner = s.GetRecord().Whose()
	}
	return messages.ShortName(m.shortID(job), s.GetRecord().GetSpec().Called(), owner)
}

// shortID returns the shortest unique prefix of a job's ID. The prefix has at least 6 letters.
func (m *Mirror) shortID(job string) string {
	const letters, most = 6, 64
	if len(job) <= letters {
		return job
	}
	var others []string
	for from := job[:letters]; from != ""; {
		next := ""
		m.jobs.ascend(from, func(id string, _ shownJob) bool {
			if !strings.HasPrefix(id, job[:letters]) {
				return false
			}
			if array, _, element := messages.ArrayOf(id); element { // an element has no unique prefix
				next = array + "`" // the elements of one array follow each other, and "`" follows "_"
				return false
			}
			others = append(others, id)
			return len(others) < most
		})
		from = next
	}
	if len(others) == most {
		return job
	}
	return messages.ShortID(job, others...)
}

// phaseOf returns the phase of a job that others wait for. It returns the empty string for a finished job that is no
// longer shown.
func (m *Mirror) phaseOf(job string) string {
	if s, ok := m.jobs.get(job); ok {
		return s.Phase
	}
	return ""
}

// beginsLater reports whether a job is in no queue because of its begin time. It uses the clock that the Job uses, so
// both agree.
func (m *Mirror) beginsLater(s *messages.JobStatus) bool {
	return s.GetRecord().BeginsUnixMs() > m.p.Clock.WallMs() && messages.Waits(s.GetPhase())
}

// placesOf returns the nodes of an attempt in the order of its ranks, each node once.
func placesOf(a *messages.AttemptRecord) []string {
	var names []string
	for _, p := range a.GetPlaces() {
		if n := len(names); n == 0 || names[n-1] != p.GetNode() { // the ranks of a node are adjacent
			names = append(names, p.GetNode())
		}
	}
	return names
}

func someOf(names []string) string {
	if more := len(names) - wordedNodes; more > 0 {
		return strings.Join(names[:wordedNodes], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}

// nodeWords returns the state of a node as text, such as "node n3 dead: 2 attempts may still be on it".
func nodeWords(before, s *messages.NodeStatus) string {
	words := "node " + s.GetRecord().GetId() + " " + s.GetPhase()
	if closed := s.GetClosed(); closed != "" && closed != s.GetPhase() {
		words += ", " + closed
	}
	if s.GetRecord().GetClosing() != nil {
		words += ", " + messages.ClosesAt(s.GetRecord())
	}
	if suspected := messages.SuspicionWords(s.GetSuspicion()); suspected != "" {
		words += ", " + suspected
	}
	if s.GetPhase() == messages.NodeUp && (before.GetPhase() != messages.NodeUp || totalChanged(before, s)) {
		words += ", with " + amountWords(s)
	}
	switch owed := len(s.GetDebts()); {
	case owed == 1:
		words += ": an attempt may still be on it"
	case owed > 1:
		words += ": " + strconv.Itoa(owed) + " attempts may still be on it"
	}
	return words
}

// amountWords returns the capacity of a node as text, without its failed devices.
func amountWords(s *messages.NodeStatus) string {
	total := messages.FromResources(s.GetRecord().GetAnnouncement().GetTotal())
	failed := failedDevices(s)
	gpus := total.MilliGPU/1000 - int64(failed)
	words := strconv.FormatInt(total.MilliCPU/1000, 10) + " CPUs and " + strconv.FormatInt(gpus, 10) + " GPUs"
	if failed > 0 {
		words += " (" + strconv.Itoa(failed) + " failed)"
	}
	return words
}

func failedDevices(s *messages.NodeStatus) int {
	return actors.OutOfService(s.GetRecord().GetAnnouncement(), s.GetLedger())
}

// QueuesShown reports the queues that apply from now on. Scheduler → Mirror.
type QueuesShown struct{ Record *messages.QueuesRecord }
