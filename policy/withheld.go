package policy

// This file owns what a Judgement says of room that it leaves idle on purpose: for each burst that waits, what keeps
// its first job waiting where that is not the room itself. Nothing is decided by it.

import "github.com/yi-json/synapse/topology"

// Withholding is why a job waits that has a place on what is free.
type Withholding int

// Of several, the first that holds.
const (
	Headroom Withholding = iota // it would run for long, and enough does already
	Locality                    // it waits for a place that is closer together
	KeptRoom                    // what is free is promised to another
	Quota                       // its queue has enough
	Withholdings
)

// Withheld says of each burst that waits what would keep its first job from starting on what is free, were there a
// place for it. It is true from the end of a pass until the next.
func (j *Judgement) Withheld(say func(gang *topology.Gang, why Withholding)) {
	for _, b := range j.bursts.list {
		if b.waits() {
			say(&b.head.Gang, j.withholding(b))
		}
	}
}

func (j *Judgement) withholding(b *burst) Withholding {
	wide := &b.head.group.outcome
	switch {
	case b.over != nil:
		return Quota
	case j.heldBack(b):
		return Headroom
	case j.isStrict(b, b.head) && (wide.round != j.round || !wide.refused[0].bare):
		return Locality
	}
	return KeptRoom
}
