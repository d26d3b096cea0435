package topology

import (
	"slices"
	"strings"
	"testing"
)

// TestAccept checks three rules. A mapped owner has only the account that the node gives. A proven owner has the
// account with the owner's name. Everything else needs a node that accepts every account.
func TestAccept(t *testing.T) {
	strict := &Accounts{Own: []string{"ann", "zoe"}, Mapped: []MappedAccount{{"bob", "svc", "1500"}}}
	open := &Accounts{Any: true, Mapped: strict.Mapped}
	many := &Accounts{More: true}
	for _, c := range []struct {
		on   *Accounts
		as   Account
		want bool
	}{
		{nil, Account{"ann", "bob", false}, true},
		{strict, Account{}, true},
		{strict, Account{"ann", "", false}, true},
		{strict, Account{"ann", "ann", true}, true},
		{strict, Account{"ann", "ann", false}, false},
		{strict, Account{"ann", "zoe", true}, false},
		{strict, Account{"max", "max", true}, false},
		{strict, Account{"bob", "svc", false}, true},
		{strict, Account{"bob", "1500", false}, true},
		{strict, Account{"bob", "bob", false}, true},
		{strict, Account{"bob", "ann", true}, false},
		{open, Account{"ann", "zoe", false}, true},
		{open, Account{"bob", "zoe", true}, false},
		{many, Account{"max", "max", true}, true},
		{many, Account{"max", "max", false}, false},
		{many, Account{"max", "zoe", true}, false},
	} {
		if got := c.on.Accept(c.as); got != c.want {
			t.Errorf("%+v on %+v: %v", c.as, c.on, got)
		}
	}
}

// TestAccountPlaces checks that a gang uses only nodes that accept its account. If there are none, the refusal names
// the account, and the advice names --user and users.owners. Without an account the gang fits.
func TestAccountPlaces(t *testing.T) {
	f := NewTree(nil)
	for id, accounts := range map[NodeID]*Accounts{
		"own": {Own: []string{"ann"}}, "old": nil, "other": {Own: []string{"zoe"}},
	} {
		total := Resources{MilliCPU: 4000, MemoryBytes: 1 << 30}
		f.Join(Machine{ID: id, Total: total, Accounts: accounts}, CapacityOf(total, nil))
	}
	gang := func(n int32, as Account) Gang {
		return Gang{Replicas: n, Each: Resources{MilliCPU: 4000}, Account: as}
	}
	nodes := func(g Gang) (names []string) {
		p, _ := Place(f, g)
		for _, s := range p.Slots {
			names = append(names, string(s.Node))
		}
		slices.Sort(names)
		return names
	}
	ann := Account{"ann", "ann", true}
	if got := nodes(gang(2, ann)); !slices.Equal(got, []string{"old", "own"}) {
		t.Errorf("two tasks of ann are on %v", got)
	}
	if ok, why := Feasible(f, gang(3, ann)); ok || !strings.Contains(why.String(), "as user ann") {
		t.Errorf("three: %v %v", ok, why)
	}
	if f.AcceptedEverywhere(ann) || !f.AcceptedEverywhere(Account{}) {
		t.Error("who is accepted everywhere")
	}
	f.Remove("old")
	g := gang(1, Account{"ann", "bob", true})
	ok, why := Feasible(f, g)
	if ok || why.String() != "user: no node runs jobs of ann as bob" {
		t.Fatalf("ann as bob: %v %v", ok, why)
	}
	if advice := f.WayOut(g, why); !strings.Contains(advice, "--user") || !strings.Contains(advice, "users.owners") {
		t.Error(advice)
	}
	named := gang(1, ann)
	named.Only = []NodeID{"other"} // another node accepts the account
	_, why = Feasible(f, named)
	if got := why.String(); !strings.Contains(got, "no matching node runs jobs of ann as ann") {
		t.Errorf("ann on a node that does not accept her: %s", got)
	}
	if advice := f.WayOut(named, why); !strings.Contains(advice, "--user") || !strings.Contains(advice, "users.owners") {
		t.Errorf("the advice names neither the flag nor the policy: %s", advice)
	}
	e := Explain(f, g, nil)
	if e.Refusal == nil || !strings.Contains(e.Refusal.String(), "no node runs jobs of ann as bob") {
		t.Errorf("explained: %+v", e)
	}
	if ok, _ := Feasible(f, gang(2, Account{})); !ok {
		t.Error("no room without an account")
	}
	if a, b := g.Shape(), gang(1, ann).Shape(); a == b {
		t.Error("gangs of two accounts are one shape")
	}
}
