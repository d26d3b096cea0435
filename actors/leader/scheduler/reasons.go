package scheduler

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns that people see why each job waits, without asking: the Mirror
// is told of every group of waiting jobs. It must never cost the pass anything:
// a refusal is put into words here, at most once a second for each group, and
// not where it is made.

// telling is how far the Mirror has been told.
type telling struct {
	began    bool
	at       actors.Instant // when all groups were looked at last
	revision uint64         // of the view then
	armed    bool           // a timer for the next look is set
	aside    string
	scratch  []policy.Reason
}

// tellAgain is the timer of the next look.
type tellAgain struct{}

// reasonEvery is how often a group's reason is looked at, and told where it changed.
const reasonEvery = time.Second

// tellWaiting tells what is new after a pass. Jobs that have just begun to wait
// are told of at once, with their reason; other groups a second after the last time.
func (s *Scheduler) tellWaiting(ctx actor.Context, joined []policy.Joined) {
	s.tellWants(ctx)
	t := &s.telling
	now := s.p.Clock.Now()
	stale := !t.began || t.revision != s.view.Fabric().Revision()
	if !stale && len(joined) == 0 {
		return
	}
	reasons := s.queue.ReasonsOf(joined, t.scratch[:0])
	before := t.aside
	switch {
	case !stale:
	case !t.began || now.Since(t.at) >= reasonEvery:
		reasons = s.queue.Reasons(s.view.Fabric(), reasons)
		t.began, t.at, t.revision, t.aside = true, now, s.view.Fabric().Revision(), s.outOfService()
	case !t.armed:
		t.armed = true
		s.p.Clock.After(t.at.Plus(reasonEvery).Since(now), ctx.Self(), tellAgain{})
	}
	t.scratch = reasons
	if len(reasons) == 0 && len(joined) == 0 && t.aside == before {
		return
	}
	shown := mirror.WaitingShown{Jobs: slices.Clone(joined), Groups: make([]mirror.GroupReason, 0, len(reasons)),
		Aside: t.aside}
	for i := range reasons {
		shown.Groups = append(shown.Groups,
			mirror.GroupReason{
				Group: reasons[i].Group, Reason: wordsOf(&reasons[i].Why), Kind: kindOf(&reasons[i].Why), Asked: reasons[i].Asked,
			})
	}
	ctx.Send(s.peers.Mirror, shown)
}

// wordsOf is what people read of a refusal. What none stands in the way of waits by the order alone.
func wordsOf(r *topology.Refusal) string {
	if *r == (topology.Refusal{}) {
		return "there is room, and it waits for its turn: for a place closer together, or behind what others were promised"
	}
	return r.String()
}

func (s *Scheduler) onTellAgain(ctx actor.Context) {
	s.telling.armed = false
	s.tellWaiting(ctx, nil)
	s.tellStarts(ctx)
}

// outOfService says how many machines take nothing new, and why, in a few words;
// which ones these are is in the list of machines.
func (s *Scheduler) outOfService() string {
	var counts [len(outageWords)]int
	all := 0
	for _, m := range s.order {
		if m.record == nil || m.record.Removed != nil {
			continue
		}
		all++
		kind, _ := m.outage(true)
		counts[kind]++
	}
	var parts []string
	for kind, word := range outageWords {
		if n := counts[kind]; n > 0 && word != "" {
			parts = append(parts, strconv.Itoa(n)+" "+word)
		}
	}
	if parts == nil {
		return ""
	}
	return "out of service: " + strings.Join(parts, ", ") + " (of " + actors.Counted(all, "machine") + ")"
}
