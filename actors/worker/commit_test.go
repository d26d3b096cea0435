package worker

import (
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestListArrivesInParts sends parts of a gang's list in any order and number. The Node holds a prefix of the list. A
// part that continues or overlaps the prefix extends it, and a part of another list begins again. The Start takes
// effect only when the list is complete.
func TestListArrivesInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newNodeRig(t, 0)
		r.start()
		lists := [][]byte{
			rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "list"), rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "another"),
		}
		s, have, of := &nodeAllocation{page: &topology.Allocation{}}, 0, 0
		for range rapid.IntRange(1, 12).Draw(t, "parts") {
			which := rapid.IntRange(0, 1).Draw(t, "which")
			list := lists[which]
			from := rapid.IntRange(0, len(list)).Draw(t, "from")
			until := rapid.IntRange(from, len(list)).Draw(t, "until")
			if of != which && !slices.Equal(lists[0], lists[1]) {
				have, of = 0, which
			}
			if from <= have {
				have = max(have, until)
			}
			meet := r.node.gather(nil, s, &messages.Start{Rendezvous: &messages.Rendezvous{Address: "a", Port: 7},
				Roster: &messages.Roster{Digest: messages.RosterDigest(list), SizeBytes: int32(len(list)),
					OffsetBytes: int32(from), Data: slices.Clone(list[from:until])}})
			whole := have == len(list)
			if (meet != nil) != whole || whole && (!slices.Equal(meet.Roster, list) || meet.Address != "a" || meet.Port != 7) {
				t.Fatalf("bytes %d to %d of %v after the first %d: %v", from, until, list, have, meet)
			}
			if whole {
				have = 0 // the list is passed on, and a new Start begins again
			}
			if got := s.roster.data; !slices.Equal(got, list[:have]) {
				t.Fatalf("of %v the first %d are here, and it has %v", list, have, got)
			}
		}
	})
}

// selfless is a context of the Node that has only its PID.
type selfless struct{ actor.Context }

func (selfless) Self() *actor.PID { return nil }

// TestLookedIntoAfterFailures checks that the node is checked after each end that it may have caused: a task fails by
// itself, does not start, or is lost. Other ends cause no check.
func TestLookedIntoAfterFailures(t *testing.T) {
	r := newNodeRig(t, 0)
	r.start()
	checked := false
	r.watch = func(m any) {
		_, is := m.(*messages.CheckMachine)
		checked = checked || is
	}
	for kind := range messages.ExitKind_name {
		for number := range messages.Fault_name {
			fault := messages.Fault(number)
			for _, code := range []int32{0, 1} {
				for _, byItself := range []bool{false, true} {
					for _, wanted := range []bool{false, true} {
						exit := &messages.Exit{Kind: messages.ExitKind(kind), Fault: fault, Code: code, ByItself: byItself}
						want := wanted && fault != messages.Fault_FAULT_JOB
						switch exit.Kind {
						case messages.ExitKind_EXIT_KIND_EXITED:
							want = want && byItself && code != 0
						case messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, messages.ExitKind_EXIT_KIND_PREPARE_FAILED,
							messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST:
						default:
							want = false
						}
						r.node.health, checked = &messages.MachineHealth{AfterFailure: wanted}, false
						if r.node.lookInto(selfless{}, exit); checked != want {
							t.Errorf("after %v the machine is checked: %v", exit, checked)
						}
					}
				}
			}
		}
	}
}
