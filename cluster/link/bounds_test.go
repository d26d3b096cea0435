package link

import (
	"context"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of the bounds in a certificate.

// badged is a hall whose clients have the given peer, which a test may change.
func badged(t *testing.T) (*hall, func(key byte, b identity.Bounds)) {
	var lock sync.Mutex
	peer := identity.Peer{Identity: identity.Identity{Role: identity.RoleNode, Name: "n1"}}
	h := newHall(t, Options{Certified: func(context.Context) (identity.Peer, error) {
		lock.Lock()
		defer lock.Unlock()
		return peer, nil
	}})
	return h, func(key byte, b identity.Bounds) {
		lock.Lock()
		defer lock.Unlock()
		peer.Key, peer.Bounds = identity.Digest{key}, b
	}
}

// TestSameKeySupersedes checks that only a client with the same key can replace a node's stream. The machine ID does
// not suffice, because every admin can list it.
func TestSameKeySupersedes(t *testing.T) {
	h, has := badged(t)
	has(1, nil)
	n := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	has(2, nil)
	if _, err := dialStranger(t, h, optionsOf("n1", "m1").introduction()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another key under the same ids: %v", err)
	}
	works(t, h, n, 1)
	if h.of(countSuperseded) != 0 {
		t.Error("the machine's stream was ended")
	}
	has(1, nil)
	newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
	if h.of(countSuperseded) == 0 { // more if the earlier one has returned and taken its place again
		t.Error("the machine's own newer stream does not take the place")
	}
}

// TestMachineOfCertificate checks that a certificate with a machine ID opens no link for another machine.
func TestMachineOfCertificate(t *testing.T) {
	h, has := badged(t)
	has(1, identity.Bounds{identity.BoundMachine: "m1"})
	if _, err := dialStranger(t, h, optionsOf("n1", "m2").introduction()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another machine: %v", err)
	}
	newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
}

// TestDoubts checks that an announcement which exceeds the certificate reaches the leader with a doubt, and any other
// one without. A doubt that the node itself sends is ignored.
func TestDoubts(t *testing.T) {
	announced := func(change func(*messages.Announcement)) *messages.Announcement {
		a := &messages.Announcement{
			Gpus:   []*messages.Gpu{{Id: "g0", Type: "h100"}, {Id: "g1", Type: "h100"}},
			Place:  []*messages.Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: "r7"}},
			Labels: []*messages.Label{{Key: "pool", Value: "train"}},
		}
		change(a)
		return a
	}
	b := identity.Bounds{
		identity.BoundGPUs: "2", identity.BoundGPUType: "h100", identity.BoundLabels: "pool=train,disk=nvme",
		identity.BoundPlace: "zone=a,rack=r7",
	}
	for want, change := range map[string]func(*messages.Announcement){
		"": func(*messages.Announcement) {},
		`it announces GPU count 3, but its certificate allows "2"`: func(a *messages.Announcement) {
			a.Gpus = append(a.Gpus, &messages.Gpu{Id: "g2", Type: "h100"})
		},
		`it announces GPU type "b200", but its certificate allows "h100"`: func(a *messages.Announcement) {
			a.Gpus[1].Type = "b200"
		},
		`it announces label pool=prod, but its certificate allows "pool=train,disk=nvme"`: func(
			a *messages.Announcement,
		) {
			a.Labels[0].Value = "prod"
		},
		`it announces topology domain zone=a,rack=r8, but its certificate allows "zone=a,rack=r7"`: func(
			a *messages.Announcement,
		) {
			a.Place[1].Value = "r8"
		},
	} {
		if got := doubts(b, announced(change)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := doubts(nil, announced(change)); got != "" {
			t.Errorf("nothing is bound, and it is doubted: %s", got)
		}
	}
}

// TestDoubtIsTheLinks checks that the doubt in a Hello comes from the link, whether the node sends one or not.
func TestDoubtIsTheLinks(t *testing.T) {
	h, has := badged(t)
	for bound, want := range map[string]bool{"0": true, "8": false} {
		has(1, identity.Bounds{identity.BoundGPUs: bound})
		o := machineOptions("n1", "m1")
		bad := newStranger(t, h, o)
		h.up("n1")
		for _, m := range samples(&cabin{o: o}) {
			hello, ok := m.(*messages.Hello)
			if !ok {
				continue
			}
			hello.Doubt = "nobody doubts me"
			bad.says(batchOf("n1", actor.NewPID("scheduler", actors.SchedulerPath), hello))
			got := hearsType[*messages.Hello](t, h.ears).message.(*messages.Hello)
			if doubted := got.Doubt != ""; doubted != want || got.Doubt == hello.Doubt {
				t.Errorf("with %s GPUs allowed, of %d: %q", bound, len(got.Announcement.Gpus), got.Doubt)
			}
		}
	}
}
