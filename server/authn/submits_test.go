package authn

import (
	"fmt"
	"runtime"
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
)

// This file tests the limit on submitted jobs per identity, and the number of remembered identities.

// TestSubmitsAreBounded checks that an identity that submits too many jobs is refused with a retry time, for every
// call that submits. Dry runs, other changes, other identities and admins are not limited.
func TestSubmitsAreBounded(t *testing.T) {
	s, _, _ := audited(t)
	allowed := DefaultAllowance()
	allowed.Submits = Rate{PerSecond: 2, Burst: 3}
	s.gate.purses.allowed = allowed
	counted := 0
	s.gate.o.Count = func(name string, n int64) {
		if name == countLimitSubmits {
			counted += int(n)
		}
	}
	ann, bob := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleSubmitter, "bob")
	root := person(t, s, identity.RoleAdmin, "root")
	q := &messages.Submit{RequestId: "r", Spec: &messages.JobSpec{Image: "host"}}
	calls := []func(api.SynapseClient, ...grpc.CallOption) error{
		func(c api.SynapseClient, o ...grpc.CallOption) error {
			_, err := c.Submit(t.Context(), q, o...)
			return err
		},
		func(c api.SynapseClient, o ...grpc.CallOption) error {
			_, err := c.SubmitScript(t.Context(), q, o...)
			return err
		},
		func(c api.SynapseClient, o ...grpc.CallOption) error {
			_, err := c.SubmitSecret(t.Context(), q, o...)
			return err
		},
	}
	served := func(err error) {
		t.Helper()
		if status.Code(err) == codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	for _, call := range calls {
		served(call(ann))
	}
	for i, call := range calls {
		var trailer metadata.MD
		err := call(ann, grpc.Trailer(&trailer))
		said := strings.Contains(err.Error(), "submits more than 2 jobs per second")
		if status.Code(err) != codes.ResourceExhausted || !said {
			t.Errorf("call %d: %v", i, err)
		}
		if got := trailer.Get(api.RetryAfterTrailer); len(got) != 1 || got[0] != "1" {
			t.Errorf("call %d: Retry-After is %q", i, got)
		}
		served(call(bob))
	}
	_, err := ann.DryRun(t.Context(), &messages.DryRun{Spec: q.Spec})
	served(err)
	_, err = ann.Cancel(t.Context(), &messages.Cancel{Job: "of-ann"})
	served(err)
	for range 9 {
		served(calls[0](root))
	}
	s.pass(500 * time.Millisecond)
	served(calls[0](ann))
	if counted != len(calls) {
		t.Errorf("%d refusals are counted", counted)
	}
}

// TestSubmitsWithoutBound checks that a rate of 0 means no limit.
func TestSubmitsWithoutBound(t *testing.T) {
	s := purses{allowed: DefaultAllowance()}
	for _, s.allowed.Submits = range []Rate{{}, {Burst: 1}} {
		for i := range 10_000 {
			if over, _ := s.submit("ann", today); over != "" {
				t.Fatalf("%v: the %dth: %s", s.allowed.Submits, i+1, over)
			}
		}
	}
}

// TestRefusedSubmitsLeaveNothing checks that a million refused submits, of one or of many identities, use no more
// memory than maxPurses identities.
func TestRefusedSubmitsLeaveNothing(t *testing.T) {
	for _, identities := range []int{1, 20_000} {
		s := purses{allowed: DefaultAllowance()}
		s.allowed.Submits = Rate{PerSecond: 1, Burst: 1}
		s.takes("open", connections, today) // an identity with an open connection is never forgotten
		before, refused := inUse(), 0
		const many = 1_000_000
		for i := range identities {
			for range 2 {
				if over, _ := s.submit(fmt.Sprint("n", i), today.Add(time.Duration(i)*time.Microsecond)); over != "" {
					refused++
				}
			}
		}
		for range many {
			if over, _ := s.submit("ann", today.Add(time.Second)); over != "" {
				refused++
			}
		}
		after := inUse()
		if len(s.all) > maxPurses || s.all["open"] == nil || refused < many+identities-2 {
			t.Errorf("of %d: %d are remembered, %d were refused", identities, len(s.all), refused)
		}
		if after > before+2<<20 {
			t.Errorf("of %d: %d KiB before, %d KiB after", identities, before>>10, after>>10)
		}
		runtime.KeepAlive(&s)
	}
}

// inUse returns the number of live bytes on the heap.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
