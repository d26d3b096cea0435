package store

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the rules for accepting writes. The rules are pure and shared by every database, so none is more
// lenient than another. They depend only on the stored record and the new one.

// Rule is the reason why a change is a Conflict. The empty rule accepts the change.
type Rule string

// These are the rules. A correct leader can break revision, request and damaged: by a race, by a client that repeats a
// request, or by a disk. It never breaks the others. They are the last protection against changed decisions, and their
// violations count as bugs.
const (
	RuleRevision Rule = "revision"   // another writer wrote the record first
	RuleRequest  Rule = "request"    // the owner's request ID already created another job
	RuleShape    Rule = "shape"      // a required field of the change is missing
	RuleReadable Rule = "unreadable" // the record could never be read again
	RuleDamaged  Rule = "damaged"    // the stored record is unreadable, so no record may follow it
	RuleWhole    Rule = "whole"      // only unreadable jobs may be dropped
	RuleID       Rule = "id-reused"  // a job with this ID was pruned
	RuleIdentity Rule = "identity"   // the owner and request of a job never change
	RuleTerminal Rule = "terminal"   // a finished job stays finished with the same result
	RuleCommit   Rule = "one-commit" // one COMMIT per token, one open attempt per job, newer tokens only
	RuleOwner    Rule = "one-owner"  // the ranks of one attempt share a GPU only within its capacity
	RuleDecision Rule = "decision"   // the decisions of COMMIT never change
	RuleEnd      Rule = "one-end"    // ENDED comes after COMMIT, once
	RuleEvidence Rule = "exits-stay" // an exit never disappears
)

// Bug reports whether only a leader with a bug breaks this rule.
func (r Rule) Bug() bool { return r != "" && r != RuleRevision && r != RuleRequest && r != RuleDamaged }

// Head holds the columns of a stored job that the rules use.
type Head struct {
	Revision       uint64
	WrittenBy      topology.Token
	Owner          string
	RequestID      string
	Arrival        uint64
	UIDTurn        uint64 // not a column: only the highest of all jobs is stored, next to the highest arrival
	State          messages.JobState
	ExitCode       int32
	FinishedUnixMs int64
}

// headOf reads the head from a record.
func headOf(j *messages.JobRecord) Head {
	return Head{
		Revision: j.GetRevision(), WrittenBy: messages.FromToken(j.GetWrittenBy()),
		Owner: j.GetOwner().GetName(), RequestID: j.GetRequestId(), Arrival: j.GetArrival(), UIDTurn: j.GetUidTurn(),
		State: j.GetState(), ExitCode: j.GetExitCode(), FinishedUnixMs: j.GetFinishedUnixMs(),
	}
}

// JudgeJob compares a job's record with the stored one, which is nil if there is none. It reports repeated if the same
// write is already stored, with everything that was written together with it.
func JudgeJob(stored *Head, next *messages.JobRecord) (repeated bool, broken Rule) {
	n := headOf(next)
	if n.State == messages.JobState_JOB_STATE_UNSPECIFIED || !isKey(next.GetId()) || !fits(n.WrittenBy) ||
		n.Revision > math.MaxInt64 || n.Arrival > math.MaxInt64 || n.UIDTurn > math.MaxInt64 ||
		!isText(n.Owner) || !isText(n.RequestID) {
		return false, RuleShape
	}
	if stored == nil {
		return false, judgeRevision(0, n.Revision)
	}
	if stored.Revision == n.Revision && stored.WrittenBy == n.WrittenBy {
		return true, ""
	}
	switch {
	case judgeRevision(stored.Revision, n.Revision) != "":
		return false, RuleRevision
	case stored.Owner != n.Owner || stored.RequestID != n.RequestID:
		return false, RuleIdentity
	case stored.State.Terminal() &&
		(stored.State != n.State || stored.ExitCode != n.ExitCode || stored.FinishedUnixMs != n.FinishedUnixMs):
		return false, RuleTerminal
	}
	return false, ""
}

// JudgeNode does the same for a node's record.
func JudgeNode(stored, next *messages.NodeRecord) (repeated bool, broken Rule) {
	by := messages.FromToken(next.GetWrittenBy())
	if !isKey(next.GetId()) || !fits(by) || next.Revision > math.MaxInt64 {
		return false, RuleShape
	}
	if stored != nil && stored.Revision == next.Revision && messages.FromToken(stored.WrittenBy) == by {
		return true, ""
	}
	return false, judgeRevision(stored.GetRevision(), next.Revision)
}

// A key or number that one database cannot store is refused by all. The error of that database would be repeated
// forever and block every other write.

// isText reports whether a text has no zero byte. PostgreSQL cannot store one.
func isText(s string) bool { return strings.IndexByte(s, 0) < 0 }

func isKey(s string) bool { return s != "" && isText(s) }

// fits reports whether a token names an attempt, and fits into signed numbers.
func fits(t topology.Token) bool {
	return !t.IsZero() && t.Epoch <= math.MaxInt64 && t.Counter <= math.MaxInt64
}

func judgeRevision(stored, next uint64) Rule {
	if next != stored+1 {
		return RuleRevision
	}
	return ""
}

// JudgeAttempt compares an attempt's record with the one stored under its token. If there is none, the change is the
// attempt's COMMIT.
func JudgeAttempt(stored, next *messages.AttemptRecord) Rule {
	switch {
	case !fits(messages.FromToken(next.GetToken())) || next.GetJob() == "" || len(next.GetPlaces()) == 0:
		return RuleShape
	case stored == nil:
		return judgeCommit(next)
	case stored.Run != next.Run || stored.CommittedUnixMs != next.CommittedUnixMs ||
		len(stored.Places) != len(next.Places):
		return RuleDecision
	case stored.End != nil && !proto.Equal(stored.End, next.End):
		return RuleEnd
	}
	for i, p := range stored.Places {
		if !samePlace(p, next.Places[i]) {
			return RuleDecision
		}
		if p.Exit != nil && next.Places[i].Exit == nil {
			return RuleEvidence
		}
	}
	return ""
}

// judgeCommit checks that nothing of an attempt has ended when it is committed, and that its ranks fit on their devices
// together.
func judgeCommit(a *messages.AttemptRecord) Rule {
	if a.End != nil {
		return RuleEnd
	}
	for _, p := range a.Places {
		if p.GetExit() != nil {
			return RuleEnd
		}
	}
	// The shares are grouped by node, because a node has few devices and a gang may have thousands.
	given := make(map[string][]*messages.GpuShare, len(a.Places))
	for _, p := range a.Places {
		all, before := p.GetGrant().GetGpus(), given[p.Node]
		if len(before) > 0 {
			all = slices.Concat(before, all)
		}
		for i := len(before); i < len(all); i++ {
			if all[i].GetMilli() <= 0 || all[i].GetMilli() > topology.WholeGPU-milliOf(all[:i], all[i].GetGpuId()) {
				return RuleOwner
			}
		}
		given[p.Node] = all
	}
	return ""
}

// milliOf returns the sum of the shares of one device.
func milliOf(shares []*messages.GpuShare, gpu string) (sum int64) {
	for _, g := range shares {
		if g.GetGpuId() == gpu {
			sum += g.GetMilli()
		}
	}
	return sum
}

// samePlace compares the decisions of COMMIT for one rank. It compares field by field, because reflection over every
// device of every rank would be most of a write's cost.
func samePlace(a, b *messages.Place) bool {
	if a.GetRank() != b.GetRank() || a.GetNode() != b.GetNode() || a.GetMachineId() != b.GetMachineId() ||
		a.GetAddress() != b.GetAddress() {
		return false
	}
	g, h := a.GetGrant(), b.GetGrant()
	if g.GetRank() != h.GetRank() || len(g.GetGpus()) != len(h.GetGpus()) ||
		messages.FromResources(g.GetAmount()) != messages.FromResources(h.GetAmount()) {
		return false
	}
	for i, s := range g.GetGpus() {
		if s.GetGpuId() != h.Gpus[i].GetGpuId() || s.GetMilli() != h.Gpus[i].GetMilli() {
			return false
		}
	}
	return true
}

// attemptHead holds the fields of an attempt that the rules use, in addition to its siblings.
type attemptHead struct {
	token topology.Token
	ended bool
}

// judgeAttempts checks all attempts that a job would have, in the order in which they were first written. A new attempt
// is open, so nothing can be committed for a finished job.
func judgeAttempts(state messages.JobState, all []attemptHead) Rule {
	open := 0
	for i, a := range all {
		if i > 0 && !all[i-1].token.Less(a.token) {
			return RuleCommit
		}
		if !a.ended {
			open++
		}
	}
	switch {
	case open > 1:
		return RuleCommit
	case open > 0 && state.Terminal():
		return RuleTerminal
	}
	return ""
}
