// Package verdict decides why an attempt failed: which rank failed first, what class of failure it was, and whether the
// failure counts against the job's restarts. The package is pure. The leader and the simulator use it.
//
// Only evidence of the kernel, the driver or an agent makes a failure one of the infrastructure. Text that a job prints
// can explain a failure and can narrow such evidence down, but never replaces it.
package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns the verdict on an attempt.

// Failure is the failed exit of one rank.
type Failure struct {
	Rank  int32
	Node  string
	Exit  *messages.Exit
	Ended int64 // when it ended, in ns on one clock for all failures
}

// Lost is a node that stopped answering during the attempt.
type Lost struct {
	Node  string
	Since int64 // when it was last heard, on the clock of the failures
}

// Case holds all facts about a failed attempt.
type Case struct {
	Attempt  *messages.AttemptRecord
	End      *messages.End
	Failures []Failure
	Lost     []Lost
	Last     *messages.Verdict // on the failed attempt before; nil: none
}

// Judge returns the verdict on an ended attempt. It returns nil if the attempt did not fail: it succeeded, a user
// cancelled or requeued it, or an operator drained a node.
func Judge(c Case) *messages.Verdict {
	switch c.End.GetCause() {
	case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_REQUEUED,
		messages.Cause_CAUSE_DRAINED, messages.Cause_CAUSE_UNSPECIFIED:
		return nil
	}
	if c.End.GetStall() != nil {
		return c.byStall()
	}
	if c.End.GetRank() < 0 || len(c.Failures) == 0 {
		return c.byCause()
	}
	first, found := First(c.Failures)
	v := &messages.Verdict{Class: found.Class, Rank: first.Rank, Node: first.Node, Reason: found.Reason,
		Explanation: found.Explain, Charged: found.Charged, Evidence: first.Exit.GetEvidence()}
	if lost := c.lostBefore(); lost != nil && found.doubtful() && found.tier != sure {
		v.Class, v.Charged, v.Node, v.Reason = messages.FailureClass_FAILURE_CLASS_NODE, false, lost.Node, "the node was lost"
		v.Rank, v.Evidence, v.Explanation = c.rankOn(lost.Node), nil, ""
	}
	v.Others = c.others(func(p *messages.Place) bool { return p.GetRank() == v.Rank })
	if v.Class == messages.FailureClass_FAILURE_CLASS_UNKNOWN {
		// The first failure of unknown cause is not charged. A second one in a row is, so that a job cannot be retried
		// without end by killing itself.
		v.Charged = c.Last.GetClass() == messages.FailureClass_FAILURE_CLASS_UNKNOWN
	}
	v.Repeated = v.Charged && !found.Echo && same(c.Last, v)
	return v
}

// byStall returns the verdict on an attempt that was ended because it made no progress. It counts against the restarts,
// so that a job that always hangs ends.
func (c Case) byStall() *messages.Verdict {
	s := c.End.GetStall()
	v := &messages.Verdict{Class: unknown, Rank: s.Rank, Node: s.Node, Charged: true, Reason: strings.TrimPrefix(
		s.Text, "stalled: ")}
	v.Others = c.others(func(p *messages.Place) bool { return p.GetRank() == v.Rank })
	return v
}

// byCause returns the verdict on an attempt that no failed rank ended.
func (c Case) byCause() *messages.Verdict {
	class, known := classOf[c.End.GetCause()]
	if !known {
		class = messages.FailureClass_FAILURE_CLASS_UNKNOWN
	}
	v := &messages.Verdict{Class: class, Rank: -1, Node: c.End.GetNode(), Reason: c.End.GetDetail()}
	if v.Node != "" {
		v.Rank = c.rankOn(v.Node)
		v.Others = c.others(func(p *messages.Place) bool { return p.GetNode() == v.Node })
	}
	return v
}

// classOf has the class of each cause that the leader decides itself.
var classOf = map[messages.Cause]messages.FailureClass{
	messages.Cause_CAUSE_MACHINE_LOST:    messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_EXPIRED:         messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_START_TIMEOUT:   messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_PREPARE_TIMEOUT: messages.FailureClass_FAILURE_CLASS_UNKNOWN,
	messages.Cause_CAUSE_PREPARE_FAILED:  messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_LAUNCH_FAILED:   messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_REBOOTED:        messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_REMOVED:         messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_UNWELL:          messages.FailureClass_FAILURE_CLASS_NODE,
	messages.Cause_CAUSE_GPU_FAULT:       messages.FailureClass_FAILURE_CLASS_GPU,
	messages.Cause_CAUSE_TIME_LIMIT:      messages.FailureClass_FAILURE_CLASS_TIMEOUT,
	messages.Cause_CAUSE_PREEMPTED:       messages.FailureClass_FAILURE_CLASS_PREEMPTED,
	messages.Cause_CAUSE_START_BY:        messages.FailureClass_FAILURE_CLASS_PREEMPTED,
}

// First returns the failure that probably caused the others. Evidence of the infrastructure comes first. A failure that
// looks like the result of another comes last. Otherwise the earlier failure comes first, and then the lower rank.
func First(all []Failure) (first Failure, found Finding) {
	for i, f := range all {
		c := Classify(f.Exit)
		order := cmp.Or(cmp.Compare(c.tier, found.tier), cmp.Compare(f.Ended, first.Ended),
			cmp.Compare(f.Rank, first.Rank))
		if i == 0 || order < 0 {
			first, found = f, c
		}
	}
	return first, found
}

// lostBefore returns the node that stopped answering first, if no node failed a task before that.
func (c Case) lostBefore() *Lost {
	var first *Lost
	for i, l := range c.Lost {
		before := !slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Ended < l.Since })
		if before && (first == nil || l.Since < first.Since) {
			first = &c.Lost[i]
		}
	}
	return first
}

// rankOn returns the lowest rank on a node, or -1.
func (c Case) rankOn(node string) int32 {
	for _, p := range c.Attempt.GetPlaces() {
		if p.GetNode() == node {
			return p.GetRank()
		}
	}
	return -1
}

// others counts the ranks that ended because of the failure: all except those that failed and those that had succeeded.
func (c Case) others(failed func(*messages.Place) bool) (n int32) {
	for _, p := range c.Attempt.GetPlaces() {
		if !failed(p) && (p.GetExit() == nil || !Succeeded(p.GetExit())) {
			n++
		}
	}
	return n
}

// Succeeded reports whether a rank exited with 0.
func Succeeded(e *messages.Exit) bool {
	return e.GetKind() == messages.ExitKind_EXIT_KIND_EXITED && e.GetCode() == 0
}

// same reports whether two failures have the same traceback at the same step. Without a reported step, nothing shows
// that the job got equally far.
func same(last, now *messages.Verdict) bool {
	a, b := last.GetEvidence(), now.GetEvidence()
	return last.GetCharged() && b.GetError() != "" && a.GetError() == b.GetError() && a.GetFrame() == b.GetFrame() &&
		b.GetStep() > 0 && a.GetStep() == b.GetStep()
}

// Sentence returns a verdict as one sentence, such as "failed: rank 17 on node-42, CUDA out of memory in train.py:211;
// 63 others ended because of it". It returns "" for no verdict.
func Sentence(v *messages.Verdict) string {
	if v == nil {
		return ""
	}
	text := "failed: "
	switch v.GetClass() {
	case messages.FailureClass_FAILURE_CLASS_PREEMPTED:
		text = "preempted: "
	case messages.FailureClass_FAILURE_CLASS_TIMEOUT:
		text = "timed out: "
	}
	switch {
	case v.GetRank() >= 0 && v.GetNode() != "":
		text += fmt.Sprintf("rank %d on %s, ", v.GetRank(), v.GetNode())
	case v.GetNode() != "":
		text += v.GetNode() + ", "
	}
	text += cmp.Or(v.GetExplanation(), v.GetReason())
	text += OthersEnded(v)
	if v.GetRepeated() {
		text += "; " + NotRetried(v)
	}
	return text
}

// OthersEnded returns how many other ranks ended because of a failure, as the end of a sentence.
func OthersEnded(v *messages.Verdict) string {
	switch n := v.GetOthers(); {
	case n == 1:
		return "; 1 other ended because of it"
	case n > 1:
		return fmt.Sprintf("; %d others ended because of it", n)
	}
	return ""
}

// NotRetried returns why a job with a repeated failure is not retried.
func NotRetried(v *messages.Verdict) string {
	return fmt.Sprintf("not retried, because the attempt before failed with the same error at the same step (%d)",
		v.GetEvidence().GetStep())
}

// Word returns the word of a class, such as "out-of-memory".
func Word(c messages.FailureClass) string {
	return strings.ReplaceAll(messages.Word(c.String(), "FAILURE_CLASS_"), " ", "-")
}

// WithoutText returns an exit without the texts of its evidence.
func WithoutText(e *messages.Exit) *messages.Exit {
	told := e.GetEvidence()
	if told.GetError() == "" && told.GetFrame() == "" && len(told.GetOutput()) == 0 && told.GetKernel() == "" {
		return e
	}
	bare := e.Revise()
	bare.Evidence = &messages.Evidence{OomScope: told.OomScope, Xids: told.Xids, DiskFull: told.DiskFull,
		EndedBy: told.EndedBy, Step: told.Step}
	return bare
}
