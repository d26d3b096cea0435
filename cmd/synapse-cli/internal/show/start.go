package show

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file owns how it looks when a job starts that waits. What cannot be told is said to be so: no time is made up.

var startColumns = []column[job]{
	{head: "JOB", cell: job.id},
	{head: "NAME", cell: func(j job) string { return j.spec().Called() }},
	{head: "PHASE", cell: job.GetPhase, paint: func(j job) string { return phaseColour(j.GetPhase()) }},
	{head: "GPUS", right: true, cell: job.gpus},
	{head: "OWNER", wide: true, cell: func(j job) string { return orDash(j.GetRecord().Whose()) }},
	{head: "AGE", wide: true, right: true, cell: job.age},
	{head: "RESERVED", wide: true, right: true, cell: func(j job) string {
		return fmt.Sprint(len(j.GetProspect().GetKept()))
	}},
	{head: "START", cell: job.starts},
}

// starts is when a job starts; of one that is in no queue, what keeps it out.
func (j job) starts() string {
	p := j.GetProspect()
	if p == nil {
		return orDash(j.why())
	}
	return p.Words(j.now)
}

// describedKept is how many machines a description names that are kept for a job.
const describedKept = 16

func describeStart(p *page, j job) {
	if told := j.GetProspect(); told != nil {
		p.line("Start", told.Words(j.now))
		p.line("Reserved", told.Reserved(describedKept, j.now))
	}
	p.line("Estimated", foretold(j.toldFirst(), 0))
}

// toldFirst is what a waiting job was told first of when it starts, as far as that is on disk: with a firm promise.
func (j job) toldFirst() *messages.Told {
	if !messages.Waits(j.GetPhase()) {
		return nil
	}
	return j.GetRecord().GetPromise().GetTold()
}

// startObj is what programs read of that. Basis is limits, estimated or none.
type startObj struct {
	Basis           string   `json:"basis"`
	EstimateFrom    string   `json:"estimateFrom,omitempty"`  // of an estimate: history, or default without any
	At              string   `json:"at,omitempty"`            // expected
	Latest          string   `json:"latest,omitempty"`        // unless a node is lost
	OnLoan          bool     `json:"onLoan,omitempty"`        // or another queue takes back what its queue borrows for it
	NineOfTen       string   `json:"p90,omitempty"`           // that were told as this one was first started by then
	Why             string   `json:"reason,omitempty"`        // there is no time, or no latest one
	Kept            []string `json:"reservedNodes,omitempty"` // machines
	KeptUntil       string   `json:"reservedUntil,omitempty"` // else until it starts, or as things stand
	Ahead           int32    `json:"ahead"`
	AheadGPUSeconds int64    `json:"aheadGpuSeconds,omitempty"`
	AheadSeconds    int64    `json:"aheadSeconds,omitempty"`  // at the pace of the last day
	Told            *toldObj `json:"firstEstimate,omitempty"` // first, where it has a firm promise
}

// basisOf returns on what a time rests, and what an estimate is made from.
func basisOf(t *messages.Prospect) (basis, from string) {
	basis = renamed.Word(renamed.Basis, messages.Word(t.GetBasis().String(), "BASIS_"))
	switch {
	case t.GetBasis() != messages.Basis_BASIS_LEARNED:
		return basis, ""
	case t.GetUnlearned():
		return basis, "default"
	}
	return basis, "history"
}

func startObject(s *messages.JobStatus) *startObj {
	t := s.GetProspect()
	if t == nil {
		return nil
	}
	basis, from := basisOf(t)
	return &startObj{
		Basis: basis, EstimateFrom: from, At: stamp(t.GetAtUnixMs()), Latest: stamp(t.GetLatestUnixMs()),
		OnLoan:    t.GetOnLoan(),
		NineOfTen: stamp(t.GetLikelyUnixMs()), Why: t.GetWhy(), Kept: t.GetKept(), KeptUntil: stamp(t.GetKeptUntilUnixMs()),
		Ahead: t.GetAhead(), AheadGPUSeconds: t.GetAheadGpuSeconds(), AheadSeconds: t.GetAheadMs() / 1000,
		Told: toldObject(job{JobStatus: s}.toldFirst(), 0),
	}
}
