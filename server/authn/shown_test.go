package authn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/rights"
)

// TestEventsAreCopiedOnce: each watcher is shown what the table says, whoever was shown the same event before; watchers
// who are shown the same share one copy, and no more copies are kept than may be.
func TestEventsAreCopiedOnce(t *testing.T) {
	var s events
	event := func(owner string) *messages.Event {
		return &messages.Event{Job: &messages.JobStatus{Record: &messages.JobRecord{
			Id: "j", RequestId: "r", Owner: &messages.Principal{Name: owner},
			Spec: &messages.JobSpec{Image: "host", Command: []string{"hush"}},
		}}}
	}
	of := []*messages.Event{
		event("ann"), event("bob"), event(messages.Anonymous),
		{Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n", MachineId: "m"}}}, {Text: "alone"},
	}
	for round := range 2 {
		for i, e := range of {
			for _, role := range identity.People {
				for _, name := range []string{"ann", "bob", "carl", "dora"} {
					who := identity.Identity{Cluster: "c-a", Role: role, Name: name}
					got, want := s.show(who, e), rights.Show(who, e)
					if !proto.Equal(got, want) || !slices.Equal(got.Foreign, want.Foreign) {
						t.Errorf("round %d: event %d is shown to %s as %v (%v), want %v (%v)", round, i, who, got.Message,
							got.Foreign, want.Message, want.Foreign)
					}
				}
			}
		}
	}
	carl := identity.Identity{Cluster: "c-a", Role: identity.RoleSubmitter, Name: "carl"}
	dora := identity.Identity{Cluster: "c-a", Role: identity.RoleSubmitter, Name: "dora"}
	if s.show(carl, of[0]).Message != s.show(dora, of[0]).Message {
		t.Error("for two who are shown the same it is copied and encoded twice")
	}
	for i := range 2 * keptEvents {
		s.show(carl, event(fmt.Sprint("o", i)))
	}
	if len(s.copies) != keptEvents || len(s.made) != keptEvents {
		t.Errorf("%d copies of %d are kept", len(s.copies), len(s.made))
	}
	large := event(strings.Repeat("o", keptBytes/3))
	for range 4 {
		large = proto.Clone(large).(*messages.Event)
		s.show(carl, large)
	}
	if len(s.copies) != 2 || len(s.made) != 2 || s.bytes > keptBytes {
		t.Errorf("%d large copies of %d with %d bytes are kept", len(s.copies), len(s.made), s.bytes)
	}
}
