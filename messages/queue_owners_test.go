package messages

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// TestWhoMayUseAQueue checks that an owner must be on the list of the queue and of each ancestor, by name or by group.
// A queue without a list admits the owners of its ancestors. A name never matches a group.
func TestWhoMayUseAQueue(t *testing.T) {
	q := &Queues{Default: "open", Queues: []*QueueSpec{
		{Name: "open"},
		{Name: "lab", Owners: []string{"ann", "group:ml"}},
		{Name: "below", Parent: "lab"},
		{Name: "narrow", Parent: "below", Owners: []string{"ann", "zoe", "group:leads"}},
	}}
	for _, c := range []struct {
		owner  string
		groups string
		want   string // the open queues, and for each other queue the one that excludes the owner
	}{
		{"ann", "", "open lab below narrow"},
		{"bob", "", "open lab:lab below:lab narrow:narrow"},
		{"bob", "ml", "open lab below narrow:narrow"},
		{"bob", "ml leads", "open lab below narrow"},
		{"bob", "leads", "open lab:lab below:lab narrow:lab"},
		{"zoe", "", "open lab:lab below:lab narrow:lab"},
		{"group:ml", "", "open lab:lab below:lab narrow:narrow"},
		{"Ann", "group:ml ML", "open lab:lab below:lab narrow:narrow"},
		{Anonymous, "", "open lab:lab below:lab narrow:narrow"},
	} {
		groups := strings.Fields(c.groups)
		var got, open, barred []string
		for _, s := range q.Queues {
			terms := q.TermsOf(s.Name)
			if bars := terms.Bars(c.owner, groups); bars != nil {
				got, barred = append(got, s.Name+":"+bars.Name), append(barred, s.Name)
				continue
			}
			got, open = append(got, s.Name), append(open, s.Name)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s of %v may use %s, want %s", c.owner, groups, text, c.want)
		}
		if named := q.OpenTo(c.owner, groups, 9); !slices.Equal(named, open) {
			t.Errorf("%s of %v is told of %v, and may use %v", c.owner, groups, named, open)
		}
		if named := q.BarredTo(c.owner, groups); !slices.Equal(named, barred) {
			t.Errorf("%s of %v is barred from %v, want %v", c.owner, groups, named, barred)
		}
	}
	unnamed, none := q.TermsOf(""), q.TermsOf("gone")
	if unnamed.Bars("bob", nil) != nil || none.Bars("bob", nil) != nil {
		t.Error("a queue without a list bars bob")
	}
	if got := q.OpenTo("ann", nil, 2); len(got) != 2 {
		t.Errorf("named are %v, and 2 are the most", got)
	}
}

// TestOpenQueuesOfDrawnTrees checks for random trees that the listed queues are the queues that do not exclude the
// owner.
func TestOpenQueuesOfDrawnTrees(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 300 {
		q := &Queues{}
		for i := range 1 + r.Intn(8) {
			s := &QueueSpec{Name: fmt.Sprint("q", i)}
			if i > 0 && r.Intn(3) > 0 {
				s.Parent = fmt.Sprint("q", r.Intn(i))
			}
			for _, entry := range []string{"ann", "bob", "group:ml"} {
				if r.Intn(4) == 0 {
					s.Owners = append(s.Owners, entry)
				}
			}
			q.Queues = append(q.Queues, s)
		}
		for _, groups := range [][]string{nil, {"ml"}} {
			var want []string
			for _, s := range q.Queues {
				if terms := q.TermsOf(s.Name); terms.Bars("ann", groups) == nil {
					want = append(want, s.Name)
				}
			}
			if got := q.OpenTo("ann", groups, 99); !slices.Equal(got, want) {
				t.Fatalf("told of %v, want %v, in %v", got, want, q)
			}
		}
	}
	circle := &Queues{Queues: []*QueueSpec{{Name: "a", Parent: "b"}, {Name: "b", Parent: "a"}}}
	if got := circle.OpenTo("ann", nil, 9); len(got) > 0 {
		t.Errorf("in a circle are open %v", got)
	}
}

// TestGroupsOfATokenCanBeAsked checks that a request with any groups of a token is valid.
func TestGroupsOfATokenCanBeAsked(t *testing.T) {
	long := strings.Repeat("x", MaxValueBytes+1)
	odd := []string{"ml", "", "ml", "a\nb", "a\u202eb", "a\x00", "\xff", long, "/ml/Ä team"}
	if got := AsGroups(odd); !slices.Equal(got, []string{"/ml/Ä team", "ml"}) {
		t.Errorf("of %q are left %q", odd, got)
	}
	for i := range 2 * maxGroups {
		odd = append(odd, fmt.Sprint("g", i))
	}
	ask := &DryRun{Principal: goodCaller, Spec: goodSpec(), Groups: AsGroups(odd)}
	if err := ask.Validate(); err != nil || len(ask.Groups) != maxGroups {
		t.Errorf("%d groups: %v", len(ask.Groups), err)
	}
	ask.Groups = append(ask.Groups, "more")
	if ask.Validate() == nil {
		t.Error("there is no bound on groups")
	}
	owners := make([]string, maxQueueOwners+1)
	for i := range owners {
		owners[i] = fmt.Sprint("o", i)
	}
	apply := func(owners []string) error {
		return (&ApplyQueues{Principal: goodCaller, Queues: &Queues{Queues: []*QueueSpec{
			{Name: "a", Owners: owners},
		}}}).Validate()
	}
	if apply(owners) == nil || apply(owners[1:]) != nil || apply([]string{""}) == nil {
		t.Errorf("of %d owners: %v, of one fewer: %v, of one without a name: %v", len(owners), apply(owners),
			apply(owners[1:]), apply([]string{""}))
	}
}
