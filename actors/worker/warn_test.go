package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// warnedRig returns a node with a started allocation of two ranks whose job has warnings. The function said returns the
// later messages of the node.
func warnedRig(t *testing.T) (r *nodeRig, order func() *messages.Order, said func() []any) {
	var all []any
	r = newNodeRig(t, 2)
	r.watch = func(m any) { all = append(all, m) }
	said = func() []any {
		now := all
		all = nil
		return now
	}
	order = func() *messages.Order {
		return &messages.Order{
			Epoch: r.epoch, Token: &messages.Token{Epoch: 1, Counter: 1}, Job: "j", Node: "a", Incarnation: r.incarnation(),
		}
	}
	r.start()
	r.tell(&messages.Lead{Epoch: r.epoch, ClusterId: "c"}, "leader")
	r.tell(&messages.Welcome{Epoch: r.epoch, Text: "w", Incarnation: r.incarnation()}, "leader")
	var members []*messages.Member
	for rank := range int32(2) {
		amount := &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30}
		members = append(members, &messages.Member{Rank: rank, Amount: amount})
	}
	r.order(&messages.Reserve{Order: order(), TtlMs: 10_000, Members: members})
	r.order(&messages.Commit{Order: order(), Members: members, Spec: &messages.JobSpec{
		Name: "train", Image: "img", Gang: &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2},
		Each: members[0].Amount, Warn: &messages.WarnSpec{Signal: 10, AheadMs: 1000},
	}})
	r.order(&messages.Start{Order: order(), JobName: "train", Run: 1, Rendezvous: &messages.Rendezvous{
		Address: "10.0.0.1", Port: 30000, Peers: []*messages.Peer{{Rank: 0, Node: "a", Address: "10.0.0.1"}},
	}})
	said()
	return r, order, said
}

// TestWarnedOfEachEnd checks that each warning reaches all ranks and is then answered. A repeated warning reaches only
// the ranks that do not have it. An older one reaches none. A new leader counts from one.
func TestWarnedOfEachEnd(t *testing.T) {
	r, order, said := warnedRig(t)
	// happens returns the ranks that got a warning, and the numbers that were answered.
	happens := func(do func()) (told []int32, answered []uint64) {
		do()
		r.settle()
		for _, m := range said() {
			switch m := m.(type) {
			case *messages.WarnTask:
				told = append(told, m.Id.Rank)
			case *messages.Warned:
				answered = append(answered, m.Number)
			}
		}
		return told, answered
	}
	warn := func(number uint64) func() {
		return func() {
			r.order(&messages.Warn{Order: order(), Number: number, Cause: messages.Cause_CAUSE_TIME_LIMIT, LeftMs: 1000})
		}
	}
	heard := func(rank topology.Rank, number uint64) func() {
		return func() {
			key := topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 1}, Rank: rank}
			r.system.Root.Send(actor.NewPID("node-a", actors.NodePath), rankWarned{key, number})
		}
	}
	newLeader := func() {
		r.epoch = 2
		r.tell(&messages.Lead{Epoch: 2, ClusterId: "c"}, "leader")
		r.tell(&messages.Welcome{Epoch: 2, Text: "w", Incarnation: r.incarnation()}, "leader")
	}
	for i, c := range []struct {
		do       func()
		told     []int32
		answered []uint64
	}{
		{warn(5), []int32{0, 1}, nil},
		{heard(1, 5), nil, nil},
		{warn(5), []int32{0}, nil},
		{warn(4), nil, nil},
		{heard(0, 4), nil, nil},
		{heard(0, 5), nil, []uint64{5}},
		{warn(5), nil, []uint64{5}},
		{warn(6), []int32{0, 1}, nil},
		{heard(0, 5), nil, nil},
		{heard(0, 6), nil, nil},
		{heard(1, 6), nil, []uint64{6}},
		{newLeader, nil, nil},
		{warn(1), []int32{0, 1}, nil},
		{heard(0, 1), nil, nil},
		{heard(1, 1), nil, []uint64{1}},
	} {
		told, answered := happens(c.do)
		if !slices.Equal(told, c.told) || !slices.Equal(answered, c.answered) {
			t.Errorf("step %d: %v got the warning, want %v; answered %v, want %v", i, told, c.told, answered, c.answered)
		}
	}
}

// TestSavedOfRequest checks that the acknowledgement of a rank is in the answer to the warning. An acknowledgement of
// another request is only counted.
func TestSavedOfRequest(t *testing.T) {
	r, order, said := warnedRig(t)
	saved := func(request uint64) (told []*messages.RankSaved) {
		key := topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 1}}
		r.system.Root.Send(actor.NewPID("node-a", actors.NodePath), rankSaved{key, &messages.RankSaved{
			Request: request, Steps: []int64{int64(request)},
		}})
		r.settle()
		for _, m := range said() {
			if warned, is := m.(*messages.Warned); is {
				told = append(told, warned.Saved...)
			}
		}
		return told
	}
	r.order(&messages.Warn{Order: order(), Number: 1, Cause: messages.Cause_CAUSE_PREEMPTED, LeftMs: 1000, Request: 41})
	for rank := range topology.Rank(2) {
		key := topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 1}, Rank: rank}
		r.system.Root.Send(actor.NewPID("node-a", actors.NodePath), rankWarned{key, 1})
	}
	r.settle()
	said()
	before := strings.Count(r.said.String(), "count checkpoint.ignored.other_request")
	if told := saved(40); len(told) > 0 {
		t.Errorf("another request: %v", told)
	}
	if n := strings.Count(r.said.String(), "count checkpoint.ignored.other_request"); n != before+1 {
		t.Errorf("%d were counted", n-before)
	}
	if told := saved(41); len(told) != 1 || told[0].Request != 41 {
		t.Errorf("the open request: %v", told)
	}
}

// TestNewLeaderIsSentTheBooks checks that the first heartbeat to each leader contains the ledger, whatever an earlier
// leader has acknowledged.
func TestNewLeaderIsSentTheBooks(t *testing.T) {
	r, _, said := warnedRig(t)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		if epoch > 1 {
			r.epoch = epoch
			r.tell(&messages.Lead{Epoch: epoch, ClusterId: "c"}, "leader")
			r.tell(&messages.Welcome{Epoch: epoch, Text: "w", Incarnation: r.incarnation()}, "leader")
			beats := 0
			for _, m := range said() {
				if beat, is := m.(*messages.Heartbeat); is {
					if beats++; beat.Ledger == nil {
						t.Errorf("the first heartbeat to the leader of epoch %d has no books", epoch)
					}
				}
			}
			if beats != 1 {
				t.Errorf("the leader of epoch %d is sent %d heartbeats", epoch, beats)
			}
		}
		r.tell(&messages.HeartbeatAck{
			Epoch: epoch, Incarnation: r.incarnation(), Seq: r.node.pulse.seq, LedgerVersion: r.node.Ledger().Version(),
		}, "leader")
		r.pass(2 * actors.DefaultConstants().Heartbeat)
		for _, m := range said() {
			if beat, is := m.(*messages.Heartbeat); is && beat.Ledger != nil {
				t.Errorf("the leader of epoch %d has the books, and is sent them again", epoch)
			}
		}
	}
}
