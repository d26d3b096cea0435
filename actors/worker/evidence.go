package worker

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
)

// This file bounds the texts in the evidence of failures. The node repeats its exits in reports until the leader has
// written them, and a report must not exceed the size of a message.

const (
	// maxOutputs is the number of exits of an allocation that keep their output. The first failures explain the rest.
	maxOutputs = 2
	// maxTexts is the number of exits of the node that keep any text of a task or of the kernel.
	maxTexts = 256
)

// boundText returns an exit without the texts that exceed the bounds.
func (n *Node) boundText(s *nodeAllocation, exit *messages.Exit) *messages.Exit {
	if exit.GetEvidence() == nil {
		return exit
	}
	outputs, texts := 0, 0
	for i := range s.ranks {
		if len(s.ranks[i].exit.GetEvidence().GetOutput()) > 0 {
			outputs++
		}
	}
	for _, l := range n.ledger.Allocations() {
		for i := range n.slices[l.Token].ranks {
			if e := n.slices[l.Token].ranks[i].exit.GetEvidence(); e.GetError() != "" || len(e.GetOutput()) > 0 {
				texts++
			}
		}
	}
	switch {
	case texts >= maxTexts:
		return verdict.WithoutText(exit)
	case outputs >= maxOutputs:
		exit.Evidence.Output = nil
	}
	return exit
}
