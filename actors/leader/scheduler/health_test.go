package scheduler

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestHealthIsWeighedByType checks that one in twenty nodes of a GPU type is closed by its checks. When that node is
// healthy or unreachable, exactly one other node of the type that is up takes its place.
func TestHealthIsWeighedByType(t *testing.T) {
	for name, leaves := range map[string]func(s *Scheduler, m *machine){
		"it is well": func(s *Scheduler, m *machine) {
			m.ledger = &messages.LedgerReport{}
			s.weighHealth(&leadertest.Context{Said: &[]leadertest.Letter{}}, m)
		},
		"it cannot be reached": func(s *Scheduler, m *machine) {
			m.up = false
			s.forgetHealth(&leadertest.Context{Said: &[]leadertest.Letter{}}, m)
		},
	} { //order: each case by itself
		s := New(leadertest.Ports(), Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		for i, gpu := range []string{"a100", "a100", "h100", "h100", "h100", "h100", "h100"} {
			id := topology.NodeID(fmt.Sprint("n", i))
			m := s.knownMachine(t, id, gpu)
			m.ledger = &messages.LedgerReport{Unwell: "a row of errors"}
			s.weighHealth(&leadertest.Context{Said: &[]leadertest.Letter{}}, m)
		}
		s.order[3].up = false
		words := func() (all string) {
			for _, m := range s.order {
				all += map[health]string{healthFine: "f", healthClosed: "C", healthExcused: "e"}[m.health]
			}
			return all
		}
		if words() != "CeCeeee" {
			t.Fatalf("%s: at first they are %s", name, words())
		}
		leaves(s, s.order[2])
		if got := words(); got != "CefeCee" {
			t.Errorf("%s: when the third leaves they are %s", name, got)
		}
	}
}

// knownMachine adds a node with one GPU that is up.
func (s *Scheduler) knownMachine(t *testing.T, id topology.NodeID, gpu string) *machine {
	t.Helper()
	record := &messages.NodeRecord{Id: string(id), Revision: 1, Announcement: &messages.Announcement{
		Total: &messages.Resources{MilliGpu: 1000}, Gpus: []*messages.Gpu{{Id: "g0", Type: gpu}},
	}}
	m := &machine{id: id, up: true, everUp: true, room: s.view.Machine(id), record: record}
	s.machines[id] = m
	s.order = append(s.order, m)
	return m
}
