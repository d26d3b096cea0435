package show

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file shows restarts in place: why an attempt continues in the place of the one before, and what that took.

// inherits is a record of an attempt, of a job that exists or of the history.
type inherits interface {
	GetInherited() *messages.Inherited
	GetCommittedUnixMs() int64
	GetStartedUnixMs() int64
	GetStoppingMs() int64
	GetPreparingMs() int64
}

// startingMs returns the time from COMMIT until all tasks ran, or 0 if that is unknown.
func startingMs(a inherits) int64 {
	if a.GetStartedUnixMs() == 0 {
		return 0
	}
	return max(a.GetStartedUnixMs()-a.GetCommittedUnixMs(), 0)
}

// inPlaceWords returns why an attempt restarted in place and how long each step took, or "" for other attempts.
func inPlaceWords(a inherits) string {
	h := a.GetInherited()
	if h == nil {
		return ""
	}
	words := []string{fmt.Sprintf("restart %d, because %s", h.GetGeneration(), h.GetCause())}
	return strings.Join(append(append(words, swapWords(h)...), inPlaceSteps(a)...), "; ")
}

// inPlaceCell returns the steps of a restart in place for a table.
func inPlaceCell(a inherits) string {
	if a.GetInherited() == nil {
		return "-"
	}
	return cmp.Or(strings.Join(append(swapWords(a.GetInherited()), inPlaceSteps(a)...), ", "), "yes")
}

// swapWords returns which nodes replaced others.
func swapWords(h *messages.Inherited) (words []string) {
	for _, s := range h.GetSwapped() {
		words = append(words, fmt.Sprintf("%s replaced %s", s.By, s.Node))
	}
	return words
}

// spareNodes returns the nodes that an attempt holds to replace lost ones.
func spareNodes(a *messages.AttemptRecord) (nodes []string) {
	for _, s := range a.GetSpares() {
		nodes = append(nodes, s.GetNode())
	}
	return nodes
}

// inPlaceSteps returns how long each known step of a restart in place took.
func inPlaceSteps(a inherits) (steps []string) {
	step := func(name string, ms int64) {
		if ms > 0 {
			steps = append(steps, fmt.Sprintf("%s %d ms", name, ms))
		}
	}
	step("stopped in", a.GetStoppingMs())
	step("prepared in", a.GetPreparingMs())
	step("started after", startingMs(a))
	return steps
}

// inPlaceObj is a restart in place for programs. A time is 0 if it is unknown.
type inPlaceObj struct {
	Number      int32  `json:"number"` // of restarts in this place
	Cause       string `json:"cause"`
	Rank        *int32 `json:"failedRank,omitempty"`
	Swapped     []swap `json:"swapped,omitempty"`
	StoppingMs  int64  `json:"stoppingMs"`  // from the recorded end of the attempt before until the decision
	PreparingMs int64  `json:"preparingMs"` // a part of startingMs
	StartingMs  int64  `json:"startingMs"`  // from the decision until all tasks ran
}

// swap is a node that another one replaced.
type swap struct {
	Node string `json:"node"`
	By   string `json:"by"`
}

func inPlaceObject(a inherits) *inPlaceObj {
	h := a.GetInherited()
	if h == nil {
		return nil
	}
	o := &inPlaceObj{Number: h.GetGeneration(), Cause: h.GetCause(), StoppingMs: a.GetStoppingMs(),
		PreparingMs: a.GetPreparingMs(), StartingMs: startingMs(a)}
	for _, s := range h.GetSwapped() {
		o.Swapped = append(o.Swapped, swap{s.Node, s.By})
	}
	if rank := h.GetRank(); rank >= 0 {
		o.Rank = &rank
	}
	return o
}
