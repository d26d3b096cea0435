package scheduler

import (
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// endingHost records the epoch that was deposed.
type endingHost struct {
	leadertest.Host
	ended uint64
}

func (h *endingHost) Deposed(epoch uint64) { h.ended = epoch }

// TestAttemptOfALaterLeader checks that a leader ends when it finds an attempt of a later leader in the store.
func TestAttemptOfALaterLeader(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch uint64
		found actors.Found
		ends  bool
	}{
		{"a later one's, committed", 4, actors.Found{Has: true}, true},
		{"a later one's, of which the store knows nothing", 4, actors.Found{}, false},
		{"an earlier one's", 2, actors.Found{Has: true}, false},
	} {
		host := &endingHost{}
		p := leadertest.Ports()
		p.Host, p.Peers, p.Epoch = host, leadertest.Nodes{}, 3
		s := New(p, Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		token := topology.Token{Epoch: c.epoch, Counter: 1}
		m := s.machine("n1")
		m.up, m.record = true, &messages.NodeRecord{Id: "n1"}
		m.ledger = &messages.LedgerReport{Slices: []*messages.SliceReport{{Token: messages.ToToken(token), Job: "j1"}}}
		s.judgeOrphan(&leadertest.Context{Said: &[]leadertest.Letter{}}, orphan{"n1", "j1", token}, c.found)
		if ended := host.ended == 3; ended != c.ends {
			t.Errorf("%s: the leader ends: %v", c.name, ended)
		}
	}
}

// TestLateHelloOfAnotherEpoch checks that a Hello with a higher epoch counts only if it can be the node's present view.
// A Hello of an earlier start of the agent may arrive late, and no later message would withdraw it.
func TestLateHelloOfAnotherEpoch(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    *messages.Incarnation
		obeys uint64
	}{
		{"of an earlier start", &messages.Incarnation{BootId: "b2", StartedNs: 4}, 0},
		{"of an earlier boot", &messages.Incarnation{BootId: "b1", StartedNs: 9}, 0},
		{"of the present start", &messages.Incarnation{BootId: "b2", StartedNs: 5}, 7},
		{"of a later start", &messages.Incarnation{BootId: "b2", StartedNs: 6}, 7},
	} {
		p := leadertest.Ports()
		p.Peers, p.Epoch = leadertest.Nodes{}, 3
		s := New(p, Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		s.behind.told = map[topology.Token]bool{}
		m := s.machine("n1")
		m.up, m.record = true, &messages.NodeRecord{Id: "n1", MachineId: "m1"}
		m.incarnation, m.pastBoots = &messages.Incarnation{BootId: "b2", StartedNs: 5}, []string{"b1"}
		s.followsAnother(&leadertest.Context{Said: &[]leadertest.Letter{}}, &messages.Hello{Epoch: 7,
			Origin: &messages.Origin{Node: "n1", MachineId: "m1", Incarnation: c.of}})
		if m.obeys != c.obeys {
			t.Errorf("a Hello %s: the node obeys %d, want %d", c.name, m.obeys, c.obeys)
		}
	}
}
