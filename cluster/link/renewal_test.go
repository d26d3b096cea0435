package link

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/authn"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// TestRenewalUnderLoad checks renewals while gangs go through their rounds. Every node's certificate is renewed, the
// original ones expire, and the scheduler's own is renewed as well. Each message is sent once, so a lost message ends
// the test. One node is not renewed and loses its link, as the others would without renewals.
func TestRenewalUnderLoad(t *testing.T) {
	const machines = 12
	began := time.Now()
	var ahead atomic.Int64
	root, err := identity.NewRoot("renewing", began)
	must(t, err)
	by, err := (&identity.Folder{Roots: root.Chain, Pair: root}).Certify(identity.RoleScheduler, "s1", began)
	must(t, err)
	by.Dir = t.TempDir()
	g, err := authn.New(authn.Options{Folder: by, Now: func() time.Time {
		return time.Now().Add(time.Duration(ahead.Load()))
	}})
	must(t, err)
	t.Cleanup(g.Close)
	badge := func(name string) *credential.Badge {
		folder, err := by.Certify(identity.RoleNode, name, began.Add(-17*time.Hour)) // two thirds of its day have passed
		must(t, err)
		folder.Dir = filepath.Join(by.Dir, name)
		must(t, folder.Create())
		badge, err := credential.OpenBadge(folder.Dir, identity.RoleNode)
		must(t, err)
		return badge
	}
	h := newHall(t, Options{Credentials: g.Credentials()})
	var badges []*credential.Badge
	gang := rehearse(t, h, machines, func(i int) credentials.TransportCredentials {
		badges = append(badges, badge(fmt.Sprintf("n%03d", i)))
		return badges[i].Credentials(nil)
	})
	lost := machineOptions("lost", "lost", h.address)
	lost.Credentials = badge("lost").Credentials(nil)
	newCabin(t, lost).linked(h)

	gangs := 0
	run := func(many int) {
		for range many {
			select {
			case <-gang():
				gangs++
			case <-time.After(testpace.Of(time.Minute)):
				t.Fatalf("gang %d does not end", gangs)
			}
		}
	}
	run(20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var renewed atomic.Int64
	for _, b := range badges {
		go b.Keep(ctx, []string{h.address}, func(format string, args ...any) {
			if line := fmt.Sprintf(format, args...); strings.Contains(line, "was renewed") {
				renewed.Add(1)
			} else {
				t.Error(line)
			}
		})
	}
	for limit := testpace.Until(time.Minute); renewed.Load() < machines; run(1) {
		if time.Now().After(limit) {
			t.Fatalf("%d of %d are renewed", renewed.Load(), machines)
		}
	}
	for _, later := range []time.Duration{8 * time.Hour, 17 * time.Hour} { // first the nodes' end, then ours is renewed
		ahead.Store(int64(later))
		rechecked := make(chan struct{})
		go func() { g.Recheck(); close(rechecked) }()
		run(20)
		<-rechecked
		run(20)
	}
	hears(t, h.ears, "LinkDown of the one that was not renewed", func(m heard) bool {
		down, is := m.message.(actors.LinkDown)
		if is && down.Node != "lost" {
			t.Errorf("the link of %s went down", down.Node)
		}
		return is && down.Node == "lost"
	})
	if n := h.of(countFull) + h.of(countNoLink); n > 0 {
		t.Errorf("%d messages were dropped", n)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
