package show

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
)

// This file prints a hang: a running job without progress.

// stallObj is a hang in -o json.
type stallObj struct {
	Text     string `json:"text"`
	Rank     *int32 `json:"rank,omitempty"` // the rank that stopped first; nil: no rank stands out
	Node     string `json:"node,omitempty"`
	Does     string `json:"does,omitempty"` // stopped, runs, peer, lock, sleep, disk or other
	Call     string `json:"systemCall,omitempty"`
	Since    string `json:"since,omitempty"`
	Step     int64  `json:"step"`
	Evidence string `json:"evidence,omitempty"`
}

func stallObject(s *messages.Stall) *stallObj {
	if s == nil {
		return nil
	}
	o := &stallObj{
		Text: s.GetText(), Node: s.GetNode(), Call: s.GetCall(), Since: stamp(s.GetSinceUnixMs()), Step: s.GetStep(),
		Evidence: s.GetWhy(),
	}
	if rank := s.GetRank(); rank >= 0 {
		o.Rank = &rank
	}
	if s.GetWait() != messages.Wait_WAIT_UNSPECIFIED {
		o.Does = messages.Word(s.GetWait().String(), "WAIT_")
	}
	return o
}

// describeStall prints the evidence of a hang. The reason of the job has the sentence.
func describeStall(p *page, s *messages.Stall) {
	if s == nil {
		return
	}
	p.line("Stalled at", fmt.Sprintf("step %d", s.GetStep()))
	p.timed("Evidence", s.GetWhy())
}
