package show

import (
	"io"

	"github.com/yi-json/synapse/messages"
)

// This file prints the failures that count against a node.

// suspicionObj is the suspicion against a node in -o json.
type suspicionObj struct {
	Suspected       bool         `json:"suspected"`
	BackedOffUntil  string       `json:"backedOffUntil,omitempty"`
	CountedFailures []failureObj `json:"failures"`
}

type failureObj struct {
	Job    string `json:"job"`
	Owner  string `json:"owner,omitempty"`
	Class  string `json:"class"`
	Reason string `json:"reason"`
	At     string `json:"at"`
}

func suspicionObject(s *messages.Suspicion) *suspicionObj {
	if s == nil {
		return nil
	}
	o := &suspicionObj{Suspected: s.GetSuspected(), BackedOffUntil: stamp(s.GetBackedOffUntilUnixMs()),
		CountedFailures: []failureObj{}}
	for _, f := range s.GetFailures() {
		o.CountedFailures = append(o.CountedFailures, failureObj{f.GetJob(), f.GetOwner(), failureClass(f), f.GetReason(),
			stamp(f.GetAtUnixMs())})
	}
	return o
}

func failureClass(f *messages.NodeFailure) string {
	return messages.Word(f.GetClass().String(), "FAILURE_CLASS_")
}

// describeSuspicion prints the failures that count against a node.
func describeSuspicion(p *page, s Style, of *messages.Suspicion) {
	if of == nil {
		return
	}
	p.section("Failures of jobs", messages.SuspicionWords(of))
	if until := of.GetBackedOffUntilUnixMs(); until > 0 {
		p.timed("Backed off", "until "+ahead(until, s.NowMs))
	}
	columns := []column[*messages.NodeFailure]{
		{head: "AT", times: true, cell: func(f *messages.NodeFailure) string { return when(f.GetAtUnixMs(), s.NowMs) }},
		{head: "JOB", cell: (*messages.NodeFailure).GetJob},
		{head: "OWNER", cell: func(f *messages.NodeFailure) string { return orDash(oneLine(f.GetOwner())) }},
		{head: "CLASS", cell: failureClass},
		{head: "REASON", cell: func(f *messages.NodeFailure) string { return oneLine(f.GetReason()) }},
	}
	if list := of.GetFailures(); len(list) > 0 {
		inside := Style{Width: s.Width, Zone: s.Zone, NowMs: s.NowMs}
		p.table(func(w io.Writer) error { return table(w, inside, columns, list) })
	}
}
