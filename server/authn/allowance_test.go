package authn

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/connlimit"
)

// TestOverdrawnAlone checks that an identity that calls too often, changes too much or holds too much open is
// refused with a retry time. Other identities are served, and returned places can be used again.
func TestOverdrawnAlone(t *testing.T) {
	s, _, _ := audited(t)
	allowed := DefaultAllowance()
	allowed.Calls, allowed.Open = Rate{PerSecond: 1, Burst: 6}, Places{Each: 12, All: 12, Share: 4, Least: 1}
	s.gate.purses.allowed = allowed
	ann, bob := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleSubmitter, "bob")
	refused := func(err error, words string, trailer metadata.MD) {
		t.Helper()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), words) {
			t.Fatalf("%v, and %q is wanted", err, words)
		}
		if got := trailer.Get(api.RetryAfterTrailer); len(got) != 1 || got[0] != "1" {
			t.Errorf("Retry-After is %q", got)
		}
	}
	served := func(err error) {
		t.Helper()
		if status.Code(err) == codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	submit := func(who api.SynapseClient, opts ...grpc.CallOption) error {
		_, err := who.Submit(t.Context(), &messages.Submit{RequestId: "r", Spec: &messages.JobSpec{Image: "host"}}, opts...)
		return err
	}
	var trailer metadata.MD
	served(submit(ann)) // her connection counts as one and this call as two
	served(submit(ann))
	list := func(who api.SynapseClient, opts ...grpc.CallOption) error {
		_, err := who.ListJobs(t.Context(), &messages.ListJobs{}, opts...)
		return err
	}
	served(list(ann))
	refused(list(ann, grpc.Trailer(&trailer)), "exceeds 1 calls per second", trailer)
	refused(submit(ann, grpc.Trailer(&trailer)), "exceeds 1 calls per second", trailer)
	served(submit(bob))
	s.pass(time.Second)
	refused(submit(ann, grpc.Trailer(&trailer)), "a change counts as two", trailer) // only one is left
	s.pass(time.Minute)
	served(list(ann))

	who := identity.Identity{Cluster: "c-a", Role: identity.RoleSubmitter, Name: "ann"}.String()
	for range 2 {
		if over, _ := s.gate.purses.begins(who, s.clock()); over != "" {
			t.Fatal(over)
		}
	}
	refused(list(ann, grpc.Trailer(&trailer)), "has reached the limit of 2 open calls and watches", trailer)
	served(list(bob))
	s.gate.purses.gives(who, open)
	served(list(ann))
}

// TestSomeStayFree checks that a new identity gets a place even if many others hold their maximum, and that the
// total is limited.
func TestSomeStayFree(t *testing.T) {
	s := purses{allowed: DefaultAllowance()}
	took := make([]int, 64)
	for i := range took {
		for {
			if over, _ := s.begins(fmt.Sprint("n", i), today); over != "" {
				break
			}
			took[i]++
		}
	}
	if took[0] < 100 || took[63] < 2 {
		t.Errorf("the first has %d, and the last %d", took[0], took[63])
	}
	if all := s.has[open]; all > s.allowed.Open.All+len(took) {
		t.Errorf("all together have %d, want at most %d and one each", all, s.allowed.Open.All)
	}
	if over, _ := s.begins("honest", today); over != "" {
		t.Errorf("the next %s", over)
	}
}

// TestWatchesOfEverything checks that unfiltered watches are limited per identity, and that an ended watch frees
// its place.
func TestWatchesOfEverything(t *testing.T) {
	s := newRig(t)
	s.gate.purses.allowed.Wide.Each = 2
	watches := func(name string, ids ...string) (*checkedCall, error) {
		c := &checkedCall{gate: s.gate, ctx: t.Context(), call: "/synapse.v1.Synapse/Watch", peer: identity.Peer{
			Identity: identity.Identity{Cluster: "c-a", Role: identity.RoleViewer, Name: name},
		}}
		return c, c.allow(&messages.Watch{Jobs: true, Ids: ids})
	}
	for range 2 {
		if c, err := watches("ann"); err != nil || !c.wide {
			t.Fatalf("one of two: %v", err)
		}
	}
	if c, err := watches("ann"); status.Code(err) != codes.ResourceExhausted || c.wide {
		t.Errorf("the third: %v", err)
	}
	if c, err := watches("ann", "j1"); err != nil || c.wide {
		t.Errorf("of one job: %v", err)
	}
	if _, err := watches("bob"); err != nil {
		t.Errorf("another one's: %v", err)
	}
	s.gate.purses.gives("synapse://c-a/viewer/ann", wide)
	if _, err := watches("ann"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestWatchesOfMany checks that the limit per identity shrinks with the number of unfiltered watches, down to a
// minimum.
func TestWatchesOfMany(t *testing.T) {
	now := time.Now()
	s := &purses{allowed: DefaultAllowance()}
	opens := func(who string) (many int) {
		for {
			has, ok := s.takes(who, wide, now)
			if !ok {
				if has != many {
					t.Errorf("%s has %d, and is told %d", who, many, has)
				}
				return many
			}
			many++
		}
	}
	var got []int
	for i := range 14 {
		got = append(got, opens(fmt.Sprint("u", i)))
	}
	if want := []int{8, 7, 6, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("one after the other opens %v, want %v", got, want)
	}
	for range 9 { // one more than the limit
		s.gives("u0", wide)
		s.gives("u1", wide)
	}
	if got := opens("u14"); got != 3 {
		t.Errorf("after two have closed their own, another opens %d", got)
	}
}

// TestConnectionsOfOne checks that the connections of one identity are limited, independent of other identities.
func TestConnectionsOfOne(t *testing.T) {
	s := newRig(t)
	s.gate.purses.allowed.Connections.Each = 2
	ann, bob := s.badge(s.by, identity.RoleViewer, "ann"), s.badge(s.by, identity.RoleViewer, "bob")
	for range 2 {
		if _, ask := s.open(ann.Credentials(nil)); ask() != nil {
			t.Fatal("one of two was refused")
		}
	}
	third, ask := s.open(ann.Credentials(nil))
	if err := ask(); status.Code(err) != codes.Unavailable {
		t.Errorf("the third: %v", err)
	}
	third.Close()
	if _, ask := s.open(bob.Credentials(nil)); ask() != nil {
		t.Error("another one is refused too")
	}
	if s.tells("Refused a connection of synapse://c-a/viewer/ann from 127.0.0.1: has reached the limit of 2") != 1 {
		t.Error("nobody is told")
	}
	s.gate.mu.Lock()
	var first *connection
	for c := range s.gate.open { //order: any connection is suitable
		if c.peer.Name == "ann" {
			first = c
		}
	}
	s.gate.mu.Unlock()
	first.Close()
	if _, ok := s.gate.purses.takes(first.peer.Identity.String(), connections, s.clock()); !ok {
		t.Error("what is closed is not given back")
	}
}

// TestRefusalsAreCounted checks that many refusals cause a few lines and then one line per minute with their
// number. A change is still written and made.
func TestRefusalsAreCounted(t *testing.T) {
	s, served, read := audited(t)
	s.gate.purses.allowed.Refusals = 5
	ann, root := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleAdmin, "root")
	for range 50 {
		_, _ = ann.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"})
	}
	if n := strings.Count(read(), "|refused"); n != 5 {
		t.Errorf("%d lines of refusals", n)
	}
	before := served.reached.Load()
	_, _ = root.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"})
	if served.reached.Load() != before+1 {
		t.Error("an admin's call was not made")
	}
	s.pass(tallyFor)
	s.gate.recheck()
	got := read()
	n := strings.Count(got, "|refused")
	if n != 6 || !strings.Contains(got, "refused: 45 times since 2026-11-23T12:00:00Z") {
		t.Errorf("%d lines of refusals:\n%s", n, got)
	}
	_, _ = ann.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"})
	if n := strings.Count(read(), "|refused"); n != 7 {
		t.Errorf("a minute later a refusal has no line: %d", n)
	}
	for range 9 {
		_, _ = ann.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"})
	}
	s.gate.Close() // counted refusals are written on Close
	if got := read(); !strings.Contains(got, "refused: 5 times since 2026-11-23T12:01:00Z") {
		t.Errorf("after the end of the gate:\n%s", got)
	}
}

// TestStrangersAreCounted checks that unauthenticated peers share one purse, regardless of their addresses.
func TestStrangersAreCounted(t *testing.T) {
	s, _, read := audited(t)
	for i := range 10 * strangersRefusals {
		s.gate.noteRefusal(audit.Line{From: fmt.Sprint("10.0.0.", i), Call: "connect", Outcome: audit.Refused})
	}
	s.gate.noteTallies(true)
	if got := read(); strings.Count(got, "\n") != strangersRefusals ||
		!strings.Contains(got, fmt.Sprintf("refused: %d times", 9*strangersRefusals)) {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

// TestPursesAreForgotten checks that an inactive identity is forgotten.
func TestPursesAreForgotten(t *testing.T) {
	s := purses{allowed: DefaultAllowance()}
	for i := range 3 * maxPurses {
		who := fmt.Sprint("n", i)
		if over, _ := s.begins(who, today.Add(time.Duration(i)*time.Minute)); over != "" {
			t.Fatal(over)
		}
		s.gives(who, open)
	}
	if n := len(s.all); n > maxPurses {
		t.Errorf("%d are remembered", n)
	}
}

// TestAllThatIsOwedIsRemembered checks that an identity is forgotten only if nothing is open and every rate is paid
// off. Otherwise a client with a thousand names could renew its allowance again and again. The test covers new
// fields too.
func TestAllThatIsOwedIsRemembered(t *testing.T) {
	for field := range reflect.TypeFor[purse]().Fields() {
		p := &purse{since: today.Add(-tallyFor)}
		at := reflect.ValueOf(p).Elem().FieldByIndex(field.Index).Addr()
		at = reflect.NewAt(field.Type, at.UnsafePointer())
		switch one := at.Interface().(type) {
		case *connlimit.Bucket:
			one.Owe(1, time.Minute, today)
			if owes := p.owes(today); owes != time.Minute || p.owes(today.Add(time.Minute)) != 0 {
				t.Errorf("with %s due in a minute it owes for %s", field.Name, owes)
			}
		case *time.Time:
			*one = today
			if owes := p.owes(today); owes != tallyFor {
				t.Errorf("with %s now it owes for %s", field.Name, owes)
			}
		case *int, *uint64:
			at.Elem().Set(reflect.ValueOf(1).Convert(field.Type))
			if p.isOpen() == (field.Name == "told") { // since bounds the time for which told counts
				t.Errorf("with one of %s it is open: %v", field.Name, p.isOpen())
			}
		case *counts:
			if one[wide] = 1; !p.isOpen() {
				t.Errorf("with one of %s it is not open", field.Name)
			}
		case *audit.Line, *chan struct{}: // part of the tally and of the waiting requests, which have counters
		default:
			t.Errorf("%s is a %s, and nothing tries whether it is remembered", field.Name, field.Type)
		}
	}
	if p := (&purse{since: today.Add(-tallyFor)}); p.isOpen() || p.owes(today) != 0 {
		t.Errorf("nothing of it is left, and it is open or owes: %+v", p)
	}
}

// TestRenewalsAreBounded checks that a node gets a few renewals at once, and then one per minute.
func TestRenewalsAreBounded(t *testing.T) {
	s := newRig(t)
	dir := t.TempDir()
	s.gate.o.Audit = must(audit.Open(dir, s.clock, s.log))
	defer s.gate.o.Audit.Close()
	b := s.badge(s.by, identity.RoleNode, "n1")
	signed := 0
	for range 2 * renewalBurst {
		if b.Renew(t.Context(), []string{s.address}) == nil {
			signed++
		}
	}
	if signed != renewalBurst {
		t.Errorf("%d certificates were signed", signed)
	}
	if err := s.badge(s.by, identity.RoleNode, "n2").Renew(t.Context(), []string{s.address}); err != nil {
		t.Errorf("another machine: %v", err)
	}
	s.pass(time.Minute)
	if err := b.Renew(t.Context(), []string{s.address}); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	text := must(os.ReadFile(filepath.Join(dir, audit.File)))
	if _, err := audit.Read(bytes.NewReader(text), nil); err != nil {
		t.Error(err)
	}
}
