package link

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file owns the tests with agents and schedulers of earlier versions. Their gRPC code is generated for
// Proto.Actor's remoting. Their frames in testdata were recorded from the last version that wrote them.

// frameOf returns a recorded frame with one of each message that this end sends, as node n1 or as the scheduler.
func frameOf(t *testing.T, end string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", end+".frame"))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// meant returns the content of a frame, as Proto.Actor's own code reads it.
func meant(t *testing.T, frame []byte, rows table) []heard {
	t.Helper()
	var m remote.RemoteMessage
	if err := proto.Unmarshal(frame, &m); err != nil {
		t.Fatal(err)
	}
	return saidIn(t, m.GetMessageBatch(), rows)
}

func saidIn(t *testing.T, b *remote.MessageBatch, rows table) []heard {
	t.Helper()
	var all []heard
	for _, e := range b.GetEnvelopes() {
		row := rows[b.TypeNames[e.TypeId]]
		if row == nil {
			t.Fatalf("%s does not cross any more", b.TypeNames[e.TypeId])
		}
		m := row.fresh()
		if err := proto.Unmarshal(e.MessageData, m); err != nil {
			t.Fatal(err)
		}
		h := heard{path: b.Targets[e.Target].Id, message: m}
		if e.Sender > 0 {
			h.sender = b.Senders[e.Sender-1]
		}
		all = append(all, h)
	}
	return all
}

// sameWord reports whether two ends received the same message.
func sameWord(a, b heard) bool {
	m, ok := b.message.(proto.Message)
	return ok && a.path == b.path && proto.Equal(a.message.(proto.Message), m) &&
		a.sender.GetAddress() == b.sender.GetAddress() && a.sender.GetId() == b.sender.GetId()
}

// oldFrame wraps bytes of an earlier version as unknown fields of a message without fields.
func oldFrame(frame []byte) *remote.DisconnectRequest {
	m := &remote.DisconnectRequest{}
	m.ProtoReflect().SetUnknown(frame)
	return m
}

// padded returns a frame of this size with one message of an unknown type.
func padded(t *testing.T, size int) *remote.DisconnectRequest {
	t.Helper()
	b := &remote.MessageBatch{
		TypeNames: []string{"none"}, Targets: []*actor.PID{{}},
		Envelopes: []*remote.MessageEnvelope{{MessageData: make([]byte, size)}},
	}
	b.Envelopes[0].MessageData = b.Envelopes[0].MessageData[:size-(proto.Size(framed(b))-size)]
	frame, err := proto.Marshal(framed(b))
	if err != nil || len(frame) != size {
		t.Fatalf("a frame of %d bytes, want %d, %v", len(frame), size, err)
	}
	return oldFrame(frame)
}

// TestOldAgent checks an old agent that dials: its messages are delivered, it understands the answers, and it is
// refused as before.
func TestOldAgent(t *testing.T) {
	h := newHall(t, Options{})
	agent := newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
	words := frameOf(t, "machine")
	if err := agent.stream.SendMsg(oldFrame(words)); err != nil {
		t.Fatal(err)
	}
	all := meant(t, words, towardScheduler)
	if len(all) < 14 {
		t.Fatalf("only %d messages are recorded", len(all))
	}
	left := all
	for len(left) > 0 {
		got := hears(t, h.ears, "a recorded message", func(m heard) bool { _, ok := m.message.(spoken); return ok })
		before := len(left)
		left = without(left, got)
		if len(left) == before {
			t.Fatalf("%s received %v of %v, which was not sent", got.path, got.message, got.sender)
		}
	}
	if h.of(countReceived) != int64(len(all)) {
		t.Errorf("%v", h.by)
	}

	for _, m := range meant(t, frameOf(t, "scheduler"), towardNode) {
		h.say(h.server.Node("n1"), m.message, m.sender.GetId())
		if got := agent.hears(towardNode); len(got) != 1 || !sameWord(m, got[0]) {
			t.Errorf("the agent received %v, want %v", got, m)
		}
	}

	bad := batchOf("n1", actor.NewPID("scheduler", actors.JournalPath), samples(&cabin{o: machineOptions("n1", "m1")})[1])
	agent.says(bad)
	h.await(t, countForbidden, 1)
	old := optionsOf("n2", "m2").introduction()
	old.Set(keyProtocol, "0")
	if _, err := dialStranger(t, h, old); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an agent that is too old is answered %v", err)
	}
	if err := agent.stream.SendMsg(padded(t, maxFrameBytes)); err != nil {
		t.Fatal(err)
	}
	h.await(t, countUnknown, 1) // the largest frame is read
	if err := agent.stream.SendMsg(padded(t, maxFrameBytes+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a frame above the limit is answered %v", err)
	}
	h.down("n1")
}

// without removes one message.
func without(all []heard, got heard) []heard {
	var left []heard
	for i, m := range all {
		if sameWord(m, got) {
			return append(left, all[i+1:]...)
		}
		left = append(left, m)
	}
	return left
}

// hears returns the messages of the next frame.
func (s *stranger) hears(rows table) []heard {
	s.tb.Helper()
	m, err := s.stream.Recv()
	if err != nil {
		s.tb.Fatal(err)
	}
	return saidIn(s.tb.(*testing.T), m.GetMessageBatch(), rows)
}

// oldScheduler serves with Proto.Actor's generated code.
type oldScheduler struct {
	remote.UnimplementedRemotingServer
	machines chan metadata.MD // introduction of each node
	streams  chan remote.Remoting_ReceiveServer
	refusal  error
}

func (s *oldScheduler) Receive(stream remote.Remoting_ReceiveServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.machines <- md
	if s.refusal != nil {
		return s.refusal
	}
	if err := stream.SendHeader(standing{address: "scheduler", epoch: 3}.metadata()); err != nil {
		return err
	}
	s.streams <- stream
	<-stream.Context().Done()
	return nil
}

// newOldScheduler serves at a loopback address.
func newOldScheduler(t *testing.T, s *oldScheduler) (address string) {
	t.Helper()
	s.machines, s.streams = make(chan metadata.MD, 64), make(chan remote.Remoting_ReceiveServer, 64)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxFrameBytes), grpc.MaxSendMsgSize(1<<30))
	remote.RegisterRemotingServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// TestOldScheduler checks a new agent that dials an old scheduler. It sends what earlier versions sent, and receives
// all messages up to the limit.
func TestOldScheduler(t *testing.T) {
	s := &oldScheduler{}
	n := newCabin(t, machineOptions("n1", "m1", newOldScheduler(t, s)))
	n.await(t, countUp, 1)
	md, stream := <-s.machines, <-s.streams
	for key, want := range n.o.introduction() {
		if got := md.Get(key); len(got) != 1 || got[0] != want[0] {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, m := range meant(t, frameOf(t, "machine"), towardScheduler) {
		n.system.Root.RequestWithCustomSender(actor.NewPID("scheduler", m.path), m.message, m.sender)
		frame, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := saidIn(t, frame.GetMessageBatch(), towardScheduler); len(got) != 1 || !sameWord(m, got[0]) {
			t.Errorf("the scheduler received %v, want %v", got, m)
		}
	}

	words := frameOf(t, "scheduler")
	if err := stream.SendMsg(oldFrame(words)); err != nil {
		t.Fatal(err)
	}
	all := meant(t, words, towardNode)
	if len(all) < 11 {
		t.Fatalf("only %d messages are recorded", len(all))
	}
	for _, m := range all { // one actor receives them in order
		if got := hears(t, n.ears, fmt.Sprintf("%T", m.message), func(heard) bool { return true }); !sameWord(m, got) {
			t.Errorf("the agent received %v, want %v", got, m)
		}
	}

	for _, size := range []int{maxFrameBytes, maxFrameBytes + 1} {
		if err := stream.SendMsg(padded(t, size)); err != nil {
			t.Fatal(err)
		}
	}
	n.await(t, countDown, 1) // above the limit
	if n.of(countUnknown) != 1 || n.of(countMalformed) != 0 {
		t.Errorf("the largest frame was not read: %v", n.by)
	}
	n.await(t, countUp, 2) // and it dials again
}

// TestOldSchedulerRefuses checks that a refusal by an old scheduler reaches the agent's log.
func TestOldSchedulerRefuses(t *testing.T) {
	s := &oldScheduler{refusal: status.Error(codes.FailedPrecondition, "upgrade that side first")}
	o := machineOptions("n1", "m1", newOldScheduler(t, s))
	said := make(lines, 64)
	o.Log = said
	n := newCabin(t, o)
	if line := <-said; !strings.Contains(line, "upgrade that side first") {
		t.Errorf("the agent logs %q", line)
	}
	if n.of(countUp) != 0 {
		t.Errorf("%v", n.by)
	}
}

// newer adds two messages of an unknown type to a batch, followed by one of a known type.
func newer(b *remote.MessageBatch) *remote.MessageBatch {
	b.TypeNames = append(b.TypeNames, "synapse.v9.Later"+strings.Repeat("x", 200))
	later := proto.Clone(b.Envelopes[0]).(*remote.MessageEnvelope)
	later.TypeId = int32(len(b.TypeNames) - 1)
	b.Envelopes = append([]*remote.MessageEnvelope{later, later}, b.Envelopes...)
	return b
}

// toldOnce waits until an end has logged an unknown message, and fails if it logs a second one.
func toldOnce(t *testing.T, said lines) {
	t.Helper()
	limit := time.After(testpace.Of(time.Minute))
	for {
		select {
		case line := <-said:
			if !strings.HasPrefix(line, "Ignored a message of ") {
				continue
			}
			if !strings.Contains(line, " a synapse.v9.Laterxxx") || len(line) > 300 {
				t.Errorf("logged %q", line)
			}
			for len(said) > 0 {
				if line := <-said; strings.HasPrefix(line, "Ignored a message of ") {
					t.Errorf("logged again: %q", line)
				}
			}
			return
		case <-limit:
			t.Fatal("the ignored type is not logged")
		}
	}
}

// TestNewerAgent checks an agent that sends messages which this scheduler does not know. The other messages arrive on
// the same stream, and the log names the unknown type once.
func TestNewerAgent(t *testing.T) {
	said := make(lines, 1000)
	h := newHall(t, Options{Log: said})
	agent := newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
	known := samples(&cabin{o: machineOptions("n1", "m1")})[1]
	agent.says(newer(batchOf("n1", actor.NewPID("scheduler", rackPath), known)))
	hears(t, h.ears, "what is known", func(m heard) bool { _, ok := m.message.(*messages.Heartbeat); return ok })
	h.await(t, countUnknown, 2)
	toldOnce(t, said)
	if h.of(countDown) != 0 {
		t.Error("the stream ended")
	}
}

// TestNewerScheduler checks the same for a scheduler's messages at an agent.
func TestNewerScheduler(t *testing.T) {
	s, said := &oldScheduler{}, make(lines, 1000)
	o := machineOptions("n1", "m1", newOldScheduler(t, s))
	o.Log = said
	n := newCabin(t, o)
	n.await(t, countUp, 1)
	stream := <-s.streams
	words := frameOf(t, "scheduler")
	var frame remote.RemoteMessage
	if err := proto.Unmarshal(words, &frame); err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(framed(newer(frame.GetMessageBatch()))); err != nil {
		t.Fatal(err)
	}
	for _, m := range meant(t, words, towardNode) {
		if got := hears(t, n.ears, fmt.Sprintf("%T", m.message), func(heard) bool { return true }); !sameWord(m, got) {
			t.Errorf("the agent received %v, want %v", got, m)
		}
	}
	n.await(t, countUnknown, 2)
	toldOnce(t, said)
	if n.of(countDown) != 0 {
		t.Error("the stream ended")
	}
}

// TestFrameIsNotKept checks that actors may keep delivered messages although gRPC reuses the frame.
func TestFrameIsNotKept(t *testing.T) {
	system := newSystem()
	system.ProcessRegistry.Address = "scheduler"
	ears := make(chan heard, 1<<8)
	for _, path := range schedulerEars {
		ear(system, path, func(m heard) { ears <- m })
	}
	o := (Options{}).completed()
	l := newLine(o, system, deaf{context.Background()}, "scheduler", "node-n1", towardScheduler)
	l.reader.caller = &caller{node: "n1", machine: "m1", boot: "boot-m1", startedNs: 7}
	frame := frameOf(t, "machine")
	left := meant(t, frame, towardScheduler)
	l.reader.frame(frame)
	for i := range frame {
		frame[i] = 0xee
	}
	for range left {
		got := hears(t, ears, "a recorded message", func(heard) bool { return true })
		left = without(left, got)
	}
	if len(left) > 0 {
		t.Errorf("%d messages changed with the frame, the first is %v", len(left), left[0])
	}
}
