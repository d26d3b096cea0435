package worker

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// progressRig returns a node with a started allocation of two ranks. The function reports makes a rank report a step.
// The function said returns the progress in the heartbeats after its last call, and acknowledges them if requested.
func progressRig(t *testing.T) (r *nodeRig, reports func(rank int32, step int64),
	said func(ack bool) []*messages.AttemptProgress) {
	r, _, all := warnedRig(t)
	token := topology.Token{Epoch: 1, Counter: 1}
	reports = func(rank int32, step int64) {
		r.system.Root.Send(r.node.slices[token].rank(topology.Rank(rank)).pid, &messages.TaskProgress{
			Id: &messages.TaskId{Token: messages.ToToken(token), Rank: rank}, Step: step, Total: 1000,
			MilliRate: 7 + int64(rank), ChangedNs: int64(r.now), Metrics: []*messages.Metric{{Name: "loss", Value: "2.1"}},
		})
		r.settle()
	}
	said = func(ack bool) (got []*messages.AttemptProgress) {
		var last uint64
		for _, m := range all() {
			if beat, is := m.(*messages.Heartbeat); is {
				if err := beat.Validate(); err != nil {
					t.Fatal(err)
				}
				last, got = beat.Seq, append(got, beat.Progress...)
			}
		}
		if ack && last > 0 {
			r.tell(&messages.HeartbeatAck{Epoch: r.epoch, Incarnation: r.incarnation(), Seq: last}, "leader")
		}
		return got
	}
	return r, reports, said
}

// TestProgressReported checks that the first progress is sent at once, and later progress at most once in 5 s and only
// after a change. The slowest rank decides step and rate.
func TestProgressReported(t *testing.T) {
	r, reports, said := progressRig(t)
	reports(0, 100)
	got := said(true)
	if len(got) != 1 || got[0].LeastStep != 100 || got[0].Ranks != 1 || got[0].MilliRate != 7 {
		t.Fatalf("first report is %v", got)
	}
	for s := range int64(20) {
		r.pass(time.Second)
		reports(0, 101+s)
		reports(1, 91+s)
	}
	got = said(true)
	if len(got) < 3 || len(got) > 4 {
		t.Fatalf("%d reports in 20 s", len(got))
	}
	last := got[len(got)-1]
	if last.MostStep-last.LeastStep != 10 || last.Ranks != 2 || last.MilliRate != 8 || len(last.Metrics) != 1 {
		t.Fatalf("report of two ranks is %v", last)
	}
	r.pass(6 * time.Second)
	said(true)
	r.pass(time.Minute)
	if got = said(true); len(got) > 0 {
		t.Fatalf("unchanged progress is sent again: %v", got)
	}
}

// TestProgressRepeated checks that progress is sent again if its heartbeat was lost, and that all of it is sent to a
// new leader. The age is that of the change.
func TestProgressRepeated(t *testing.T) {
	r, reports, said := progressRig(t)
	reports(0, 100)
	said(false) // lost
	r.pass(7 * time.Second)
	if got := said(true); len(got) != 1 || got[0].LeastStep != 100 || got[0].AgeMs < 4000 {
		t.Fatalf("after the first was lost: %v", got)
	}
	r.pass(20 * time.Second)
	if got := said(true); len(got) > 0 {
		t.Fatalf("acknowledged progress is sent again: %v", got)
	}
	r.epoch = 2
	r.tell(&messages.Lead{Epoch: 2, ClusterId: "c"}, "leader")
	r.tell(&messages.Welcome{Epoch: 2, Text: "w", Incarnation: r.incarnation()}, "leader")
	if got := said(true); len(got) != 1 || got[0].LeastStep != 100 {
		t.Fatalf("report to a new leader is %v", got)
	}
}

// TestProgressOfOneThatSaysNothing checks that heartbeats are unchanged if no task reports progress.
func TestProgressOfOneThatSaysNothing(t *testing.T) {
	r, _, said := progressRig(t)
	r.pass(time.Minute)
	if got := said(true); len(got) > 0 {
		t.Fatalf("no task reported progress, but the report is %v", got)
	}
}

// TestProgressOfManyAttempts checks the first progress of several attempts at the same moment. Only two heartbeats
// carry it: one at once, and one for all others a second later.
func TestProgressOfManyAttempts(t *testing.T) {
	r, reports, said := progressRig(t)
	members := []*messages.Member{{Amount: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30}}}
	order := &messages.Order{
		Epoch: r.epoch, Token: &messages.Token{Epoch: 1, Counter: 2}, Job: "k", Node: "a", Incarnation: r.incarnation(),
	}
	r.order(&messages.Reserve{Order: order, TtlMs: 10_000, Members: members})
	r.order(&messages.Commit{Order: order, Members: members, Spec: &messages.JobSpec{
		Name: "other", Image: "img", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: members[0].Amount,
	}})
	r.order(&messages.Start{Order: order, JobName: "other", Run: 1, Rendezvous: &messages.Rendezvous{
		Address: "10.0.0.1", Port: 30001, Peers: []*messages.Peer{{Node: "a", Address: "10.0.0.1"}},
	}})
	said(true)
	reports(0, 100)
	r.system.Root.Send(r.node.slices[messages.FromToken(order.Token)].rank(0).pid, &messages.TaskProgress{
		Id: &messages.TaskId{Token: order.Token}, Step: 1, ChangedNs: int64(r.now),
	})
	r.settle()
	if got := said(true); len(got) != 1 || got[0].Job != "j" {
		t.Fatalf("at once %v is reported", got)
	}
	r.pass(earlyEvery)
	if got := said(true); len(got) != 1 || got[0].Job != "k" {
		t.Fatalf("a second later %v is reported", got)
	}
	r.pass(4 * time.Second)
	if got := said(true); len(got) > 0 {
		t.Fatalf("later %v is reported again", got)
	}
}

// TestQuietReported checks that a rank without progress is reported within a second, that a rank that works is only
// counted, and that the time of the report lets the leader compute the ages.
func TestQuietReported(t *testing.T) {
	r, reports, said := progressRig(t)
	token := topology.Token{Epoch: 1, Counter: 1}
	state := func(rank int32, s *messages.RankState) {
		s.Rank = rank
		r.system.Root.Send(r.node.slices[token].rank(topology.Rank(rank)).pid, &messages.TaskProgress{
			Id: &messages.TaskId{Token: messages.ToToken(token), Rank: rank}, Step: 7, ChangedNs: 5, State: s,
		})
		r.settle()
	}
	reports(0, 7)
	if got := said(true); len(got) != 1 || len(got[0].Quiet) != 0 || got[0].Active != 0 {
		t.Fatalf("without a state: %v", got)
	}
	r.pass(6 * time.Second)
	state(0, &messages.RankState{Reports: true})
	state(1, &messages.RankState{})
	r.pass(15 * time.Second)
	got := said(true)
	if n := len(got); n == 0 || got[n-1].Active != 2 || got[n-1].OnTime != 1 || len(got[n-1].Quiet) != 0 {
		t.Fatalf("two ranks that work: %v", got)
	}
	state(0, &messages.RankState{Reports: true, Late: true, Wait: messages.Wait_WAIT_LOCK})
	r.pass(1100 * time.Millisecond)
	said(true)
	state(1, &messages.RankState{QuietNs: 9, Wait: messages.Wait_WAIT_PEER})
	r.pass(1100 * time.Millisecond)
	got = said(true)
	if len(got) != 1 || len(got[0].Quiet) != 2 || got[0].Active != 0 || got[0].SentNs == 0 ||
		got[0].Quiet[1].Wait != messages.Wait_WAIT_PEER {
		t.Fatalf("two ranks without progress: %v", got)
	}
}

// TestUseReported checks that heartbeats carry what the tasks use, that a change of the use alone sends no heartbeat
// early, and that a rank that has ended keeps its totals.
func TestUseReported(t *testing.T) {
	r, reports, said := progressRig(t)
	token := topology.Token{Epoch: 1, Counter: 1}
	use := func(rank int32, u *messages.Use) {
		r.system.Root.Send(r.node.slices[token].rank(topology.Rank(rank)).pid, &messages.TaskProgress{
			Id: &messages.TaskId{Token: messages.ToToken(token), Rank: rank}, Use: u,
		})
		r.settle()
	}
	use(0, &messages.Use{Tasks: 1, CpuMs: 10})
	use(0, &messages.Use{Tasks: 1, CpuMs: 20, GpuPercent: 50, Gpus: 1, IdleMs: 5})
	use(1, &messages.Use{Tasks: 1, CpuMs: 5, IdleMs: 3})
	if got := said(true); len(got) != 0 {
		t.Fatalf("the use alone sent %v", got)
	}
	r.pass(6 * time.Second)
	got := said(true)
	if len(got) != 1 || got[0].Ranks != 0 || got[0].Use.CpuMs != 25 || got[0].Use.Tasks != 2 || got[0].Use.IdleMs != 3 {
		t.Fatalf("the heartbeat has %v", got)
	}
	reports(0, 5)
	slice := r.node.slices[token]
	slice.rank(1).exit = &messages.Exit{Rank: 1, CpuMs: 7}
	u := slice.progressOf(r.now).Use
	slice.rank(1).exit = nil // the ledger has none
	if u.GetTasks() != 0 || u.CpuMs != 7 {
		t.Errorf("after the end of a rank, and with one that has no use, the use is %v", u)
	}
}
