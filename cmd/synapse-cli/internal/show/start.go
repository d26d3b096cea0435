package show

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file prints when a waiting job starts. If no time is known, it says so.

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
	{head: "START", times: true, cell: job.starts},
}

// starts returns when a job starts, or why a job outside the queue does not.
func (j job) starts() string {
	p := j.GetProspect()
	if p == nil {
		return orDash(j.why())
	}
	return p.Words(j.now)
}

// describedKept limits the reserved nodes in a description.
const describedKept = 16

func describeStart(p *page, j job) {
	if told := j.GetProspect(); told != nil {
		p.timed("Start", told.Words(j.now))
		p.timed("Reserved", told.Reserved(describedKept, j.now))
	}
	p.timed("Estimated", foretold(j.toldFirst(), 0))
}

// toldFirst returns the first estimate of a waiting job, if it is on disk. Only jobs with a start guarantee have
// one.
func (j job) toldFirst() *messages.Told {
	if !messages.Waits(j.GetPhase()) {
		return nil
	}
	return j.GetRecord().GetPromise().GetTold()
}

// startObj holds the start of a waiting job for programs. Basis is limits, estimated or none.
type startObj struct {
	Basis           string   `json:"basis"`
	EstimateFrom    string   `json:"estimateFrom,omitempty"`  // source of an estimate: history, or default without history
	At              string   `json:"at,omitempty"`            // expected start
	Latest          string   `json:"latest,omitempty"`        // latest start, unless a node is lost
	OnLoan          bool     `json:"onLoan,omitempty"`        // or another queue reclaims what the job's queue borrows
	NineOfTen       string   `json:"p90,omitempty"`           // by then, 90 % of the jobs with such an estimate had started
	Why             string   `json:"reason,omitempty"`        // why the time, or the latest start, is unknown
	Kept            []string `json:"reservedNodes,omitempty"` // nodes
	KeptUntil       string   `json:"reservedUntil,omitempty"` // missing: until it starts, or until the plan changes
	Ahead           int32    `json:"ahead"`
	AheadGPUSeconds int64    `json:"aheadGpuSeconds,omitempty"`
	AheadSeconds    int64    `json:"aheadSeconds,omitempty"`  // at the rate of the last day
	Told            *toldObj `json:"firstEstimate,omitempty"` // first estimate, with a start guarantee
}

// basisOf returns the basis of a start time, and the source of an estimate.
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
