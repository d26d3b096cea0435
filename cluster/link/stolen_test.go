package link

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of a stolen node certificate. It only allows messages of nodes, about that node.

// crossing lists the messages of each direction between a node and a scheduler. All others stay in a process or come
// from clients. It is compared with the two tables of the link.
var crossing = map[string][]string{
	"toward a scheduler": {
		"Aborted", "Committed", "Ended", "ExecRefused", "Exited", "Expired", "Heartbeat",
		"Hello", "Lacking", "Prepared", "Refused",
		"Report", "Reserved", "Started", "TaskLogs", "Warned",
	},
	"toward a machine": {
		"Abort", "Commit", "ExecTask", "Forget",
		"HeartbeatAck", "Lead", "LogsTask", "Rejected", "Reserve", "Start", "Stop", "Warn",
		"Welcome",
	},
}

// TestEveryMessageIsDecided sends a message of every type from a node to every path. Only messages of nodes pass, and
// only to their own receiver. A new message crosses only if both the table and this test permit it.
func TestEveryMessageIsDecided(t *testing.T) {
	for way, table := range map[string]table{"toward a scheduler": towardScheduler, "toward a machine": towardNode} {
		var names []string
		for _, row := range table { //order: sorted below
			names = append(names, string(row.descriptor().Name()))
		}
		slices.Sort(names)
		if !slices.Equal(names, crossing[way]) {
			t.Errorf("%s: the link lets %v through, and decided was %v", way, names, crossing[way])
		}
	}
	h := newHall(t, Options{})
	bad := newStranger(t, h, machineOptions("n9", "m9"))
	h.up("n9")
	kinds, places := 0, []string{
		actors.SchedulerPath, jobPath, rackPath, logsPath, actors.MirrorPath, "synapse/journal",
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("synapse.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			found, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(i).FullName())
			if err != nil {
				t.Fatal(err)
			}
			kinds++
			message := found.New().Interface()
			name := string(found.Descriptor().Name())
			for _, path := range places {
				want := countUnknown
				if row := towardScheduler[string(found.Descriptor().FullName())]; row != nil {
					if want = countForbidden; covers(row.to, path) {
						want = countInvalid // an empty message is invalid, but permitted
					}
				}
				before := h.of(want)
				bad.says(batchOf("n9", actor.NewPID("scheduler", path), message))
				eventually(t, name+" to "+path+" is counted as "+want, func() bool { return h.of(want) == before+1 })
			}
		}
		return true
	})
	if kinds < 80 || h.of(countReceived) != 0 {
		t.Errorf("of %d kinds, %d messages came in", kinds, h.of(countReceived))
	}
}

// TestCertifiedName checks that a stream under another name than the certificate's is refused. On an open stream, facts
// and senders of another node are refused.
func TestCertifiedName(t *testing.T) {
	certified := func(context.Context) (identity.Peer, error) {
		return identity.Peer{Identity: identity.Identity{Name: "n1"}}, nil
	}
	h := newHall(t, Options{Certified: certified})
	if _, err := dialStranger(t, h, optionsOf("n2", "m2").introduction()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("n1 came in as n2: %v", err)
	}
	bad := newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
	rack := actor.NewPID("scheduler", rackPath)
	own, other := (&cabin{o: machineOptions("n1", "m1")}).origin(), (&cabin{o: machineOptions("n2", "m2")}).origin()
	for _, c := range []struct {
		what, counter string
		batch         proto.Message
		as            string
	}{
		{"a fact about another machine", countForged, &messages.Heartbeat{Origin: other, Epoch: 1, Seq: 1}, "n1"},
		{"a Hello as another machine", countForbidden, &messages.Hello{Origin: own}, "n2"},
		{"a heartbeat as another machine", countForbidden, &messages.Heartbeat{Origin: own, Epoch: 1, Seq: 1}, "n2"},
	} {
		before := h.of(c.counter)
		bad.says(batchOf(c.as, rack, c.batch))
		eventually(t, c.what+" is refused", func() bool { return h.of(c.counter) == before+1 })
	}
	person := func(context.Context) (identity.Peer, error) { return identity.Peer{}, errors.New("no machine") }
	none := newHall(t, Options{Certified: person})
	if _, err := dialStranger(t, none, optionsOf("n1", "m1").introduction()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a person opened a link: %v", err)
	}
}

// TestOnlyToItsRack checks that after a Rack has welcomed a node, no other Rack receives its heartbeats and reports.
func TestOnlyToItsRack(t *testing.T) {
	h := newHall(t, Options{})
	const other = actors.SchedulerPath + "/rack-a.r2"
	ear(h.system, other, func(m heard) { t.Errorf("the other Rack received %T", m.message) })
	n := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	works(t, h, n, 1)
	h.say(h.server.Node("n1"), &messages.Welcome{Epoch: 1, Text: "welcome", Incarnation: n.o.Incarnation}, rackPath)
	hearsType[*messages.Welcome](t, n.ears)
	before := h.of(countForbidden)
	n.say(actor.NewPID(h.system.Address(), other), &messages.Heartbeat{Origin: n.origin(), Epoch: 1, Seq: 2})
	eventually(t, "the heartbeat is refused", func() bool { return h.of(countForbidden) == before+1 })
	works(t, h, n, 3)
}
