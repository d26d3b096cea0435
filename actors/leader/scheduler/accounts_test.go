package scheduler

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
)

// TestPeopleSeeHowAMachineDecidesAboutUsers checks the displayed account rule of a node: the last announced rule, the
// first accounts and their number. A node without an announced rule is shown without one.
func TestPeopleSeeHowAMachineDecidesAboutUsers(t *testing.T) {
	many := &messages.NodeUsers{More: true, Mapped: []*messages.MappedUser{{Owner: "bob", Account: "nobody"}}}
	for i := range 3 * maxUsersShown {
		many.Own = append(many.Own, fmt.Sprintf("u%02d", i))
	}
	a := newApplied(t)
	m := a.s.machine("n1")
	shown := func(u *messages.NodeUsers) *messages.NodeUsers {
		a.s.decides(m, u)
		a.said = nil
		a.s.showNode(&leadertest.Context{Said: &a.said}, m)
		all := a.said[0].Message.(mirror.NodeShown)
		if l := all.Status.Users; len(l.GetOwn()) > 0 || len(l.GetMapped()) > 0 || l.GetAny() != all.Named.GetAny() ||
			l.GetOwnCount() != all.Named.GetOwnCount() || l.GetMappedCount() != all.Named.GetMappedCount() {
			t.Errorf("in lists is shown %v, and of it alone %v", l, all.Named)
		}
		return all.Named
	}
	if u := shown(nil); u != nil {
		t.Errorf("the node announced no rule, but %v is shown", u)
	}
	u := shown(many)
	if len(u.Own) != maxUsersShown || u.OwnCount != 3*maxUsersShown || u.Own[1] != "u01" || !u.More || u.Any ||
		u.MappedCount != 1 || u.Mapped[0].Account != "nobody" {
		t.Errorf("of %d accounts are shown %v", len(many.Own), u)
	}
	if len(many.Own) != 3*maxUsersShown {
		t.Error("the node's announcement was changed")
	}
	if u := shown(&messages.NodeUsers{Any: true}); !u.Any || u.OwnCount != 0 || len(u.Mapped) != 0 {
		t.Errorf("it takes every account by now, and shown is %v", u)
	}
}
