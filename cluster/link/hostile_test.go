package link

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file owns the tests of hostile or newer peers. After each of them the process works, its memory is bounded, and
// a well-behaved node is served.

// TestHostileMessages checks that messages which crash or misuse Proto.Actor's remote are dropped and counted, and that
// the stream continues.
func TestHostileMessages(t *testing.T) {
	h := newHall(t, Options{})
	n := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	bad := newStranger(t, h, machineOptions("n9", "m9"))
	h.up("n9")
	origin := (&cabin{o: machineOptions("n9", "m9")}).origin()
	beat := &messages.Heartbeat{Origin: origin, Epoch: 1, Seq: 1}
	rack := actor.NewPID("scheduler", rackPath)

	_, err := bad.client.ListProcesses(context.Background(), &remote.ListProcessesRequest{Pattern: "."})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("ListProcesses answers %v", err)
	}
	_, err = bad.client.GetProcessDiagnostics(context.Background(), &remote.GetProcessDiagnosticsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GetProcessDiagnostics answers %v", err)
	}
	for _, c := range hostileBatches(beat, rack) {
		before := h.of(c.counter)
		b := batchOf("n9", actor.NewPID("scheduler", rackPath), beat)
		c.edit(b, b.Envelopes[0])
		bad.says(b)
		eventually(t, c.name+" is counted as "+c.counter, func() bool { return h.of(c.counter) == before+1 })
	}
	if h.of(countPanicked) != 0 || h.of(countReceived) != 0 {
		t.Errorf("%v", h.by)
	}
	bad.says(batchOf("n9", rack, beat)) // its stream is open, and it may send valid messages at any time
	hearsType[*messages.Heartbeat](t, h.ears)
	works(t, h, n, 2)
}

type hostileBatch struct {
	name, counter string
	edit          func(*remote.MessageBatch, *remote.MessageEnvelope)
}

func hostileBatches(beat *messages.Heartbeat, rack *actor.PID) []hostileBatch {
	type B = *remote.MessageBatch
	type E = *remote.MessageEnvelope
	typed := func(b B, e E, m proto.Message) {
		b.TypeNames[0] = string(m.ProtoReflect().Descriptor().FullName())
		e.MessageData, _ = proto.Marshal(m)
	}
	return []hostileBatch{
		{"a target index beyond", countMalformed, func(_ B, e E) { e.Target = 1 }},
		{"a negative target index", countMalformed, func(_ B, e E) { e.Target = -1 }},
		{"the least target index", countMalformed, func(_ B, e E) { e.Target = -1 << 31 }},
		{"a sender index beyond", countMalformed, func(_ B, e E) { e.Sender = 2 }},
		{"a negative sender index", countMalformed, func(_ B, e E) { e.Sender = -1 }},
		{"the least sender index", countMalformed, func(_ B, e E) { e.Sender = -1 << 31 }},
		{"a type index beyond", countMalformed, func(_ B, e E) { e.TypeId = 1 }},
		{"a negative type index", countMalformed, func(_ B, e E) { e.TypeId = -1 }},
		{"lists that are empty", countMalformed, func(b B, _ E) { b.TypeNames, b.Targets, b.Senders = nil, nil, nil }},
		{"an unknown serializer", countMalformed, func(_ B, e E) { e.SerializerId = 7 }},
		{"a type of a newer version", countUnknown, func(b B, _ E) { b.TypeNames[0] = "synapse.v1.Evict" }},
		{"a client's message", countUnknown, func(b B, e E) { typed(b, e, &messages.Cancel{Job: "j-1"}) }},
		{"a command toward the leader", countUnknown, func(b B, e E) { typed(b, e, &messages.Abort{}) }},
		{"Terminated without a who", countUnknown, func(b B, e E) { typed(b, e, &actor.Terminated{}) }},
		{"Stop for an actor", countUnknown, func(b B, e E) { typed(b, e, &actor.Stop{}) }},
		{"PoisonPill for an actor", countUnknown, func(b B, e E) { typed(b, e, &actor.PoisonPill{}) }},
		{"Watch of an actor", countUnknown, func(b B, e E) { typed(b, e, &actor.Watch{Watcher: rack}) }},
		{"a spawn", countUnknown, func(b B, e E) { typed(b, e, &remote.ActorPidRequest{Name: "x", Kind: "y"}) }},
		{"a message to guardian$1", countForbidden, func(b B, _ E) { b.Targets[0].Id = "guardian$1" }},
		{"a message to the root", countForbidden, func(b B, _ E) { b.Targets[0].Id = "synapse" }},
		{"a heartbeat to the Journal", countForbidden, func(b B, _ E) { b.Targets[0].Id = actors.JournalPath }},
		{"a heartbeat to the Scheduler", countForbidden, func(b B, _ E) { b.Targets[0].Id = actors.SchedulerPath }},
		{"a fact to a Coordinator", countForbidden, func(b B, e E) {
			typed(b, e, &messages.Aborted{Origin: beat.Origin})
			b.Targets[0].Id = jobPath + "/attempt-1.3"
		}},
		{"a relay to another machine", countForbidden, func(b B, _ E) { b.Targets[0].Address = "node-n1" }},
		{"a loop through another name of ours", countForbidden, func(b B, _ E) { b.Targets[0].Address = "nonhost" }},
		{"no target address", countForbidden, func(b B, _ E) { b.Targets[0].Address = "" }},
		{"a path as long as a book", countForbidden, func(b B, _ E) { b.Targets[0].Id += strings.Repeat("x", 1<<20) }},
		{"another machine's sender", countForbidden, func(b B, _ E) { b.Senders[0].Address = "node-n1" }},
		{"our own sender", countForbidden, func(b B, _ E) { b.Senders[0].Address = "scheduler" }},
		{"no sender", countForbidden, func(b B, e E) { e.Sender = 0 }},
		{"an actor that is not there", countDeadLetters, func(b B, _ E) {
			b.Targets[0].Id = actors.SchedulerPath + "/rack-z"
		}},
		{"another machine's fact", countForged, func(b B, e E) {
			o := proto.Clone(beat.Origin).(*messages.Origin)
			o.Node = "n1"
			typed(b, e, &messages.Heartbeat{Origin: o, Epoch: 1})
		}},
		{"a clone's fact", countForged, func(b B, e E) {
			o := proto.Clone(beat.Origin).(*messages.Origin)
			o.MachineId = "m8"
			typed(b, e, &messages.Heartbeat{Origin: o, Epoch: 1})
		}},
		{"a fact of an earlier start", countForged, func(b B, e E) {
			o := proto.Clone(beat.Origin).(*messages.Origin)
			o.Incarnation.StartedNs--
			typed(b, e, &messages.Heartbeat{Origin: o, Epoch: 1})
		}},
		{"a message that its Validate refuses", countInvalid, func(b B, e E) {
			typed(b, e, &messages.Heartbeat{Origin: beat.Origin})
		}},
		{"a message that is none", countInvalid, func(_ B, e E) { e.MessageData = []byte{0xff} }},
		{"a message of nothing but empty parts", countInvalid, func(b B, e E) {
			b.TypeNames[0] = "synapse.v1.Report" // ledger{slices{}, very often}
			slices := bytes.Repeat([]byte{0x2a, 0}, emptyParts())
			ledger := append([]byte{0x1a}, binaryLength(len(slices))...)
			e.MessageData = append(ledger, slices...)
		}},
		{"more envelopes than a batch has", countMalformed, func(b B, e E) {
			for range maxBatchMessages {
				b.Envelopes = append(b.Envelopes, e)
			}
		}},
		{"a batch of nothing but empty targets", countMalformed, func(b B, _ E) {
			b.Targets = nil
			for range emptyParts() {
				b.Targets = append(b.Targets, &actor.PID{})
			}
		}},
		{"type names that are no words", countUnknown, func(b B, _ E) { b.TypeNames[0] = strings.Repeat("x", 1<<20) }},
	}
}

// emptyParts returns as many parts as fit into a message, or with -short one too many.
func emptyParts() int {
	if testing.Short() {
		return maxObjects + 1
	}
	return 2_000_000
}

func binaryLength(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// TestOtherFrames checks that other kinds of frames are dropped and counted.
func TestOtherFrames(t *testing.T) {
	h := newHall(t, Options{})
	bad := newStranger(t, h, machineOptions("n9", "m9"))
	for _, m := range []*remote.RemoteMessage{
		{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{}}},
		{MessageType: &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{Blocked: true}}},
		{MessageType: &remote.RemoteMessage_DisconnectRequest{DisconnectRequest: &remote.DisconnectRequest{}}},
	} {
		if err := bad.stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	h.await(t, countMalformed, 3)
	if err := bad.stream.Send(&remote.RemoteMessage{}); err != nil {
		t.Fatal(err)
	}
	works(t, h, newCabin(t, machineOptions("n1", "m1", h.address)), 1)
	if h.of(countDown) != 0 {
		t.Error("a stream ended")
	}
}

// memory returns the bytes of live heap objects.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestHugeMessage checks that a message of 100 MB ends its stream before it is read.
func TestHugeMessage(t *testing.T) {
	h, n := pair(t)
	bad := newStranger(t, h, machineOptions("n9", "m9"))
	h.up("n9")
	huge := batchOf("n9", actor.NewPID("scheduler", rackPath), &messages.Heartbeat{})
	huge.Envelopes[0].MessageData = make([]byte, 100<<20)
	var peak atomic.Uint64
	done := make(chan struct{})
	watched := make(chan struct{})
	data, err := proto.Marshal(framed(huge)) // the sender's own memory does not count
	if err != nil {
		t.Fatal(err)
	}
	raw := &remote.DisconnectRequest{}
	raw.ProtoReflect().SetUnknown(data)
	before := memory()
	go func() {
		defer close(watched)
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	bad.stream.SendMsg(raw) // marshals: the sender's second copy
	_, err = bad.stream.Recv()
	close(done)
	<-watched
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("it is answered %v", err)
	}
	h.down("n9")
	works(t, h, n, 1)
	t.Logf("before %d MiB, at most %d MiB", before>>20, peak.Load()>>20)
	if peak.Load() > before+160<<20 { // the sender's copy is 100 MiB of it
		t.Errorf("memory went from %d to %d MiB", before>>20, peak.Load()>>20)
	}
}

// TestFlood checks that a flooding peer is slowed by its own sockets. Its messages wait there, not in a mailbox.
func TestFlood(t *testing.T) {
	h, n := pair(t)
	bad := newStranger(t, h, machineOptions("n9", "m9"))
	h.up("n9")
	b := batchOf("n9", actor.NewPID("scheduler", actors.SchedulerPath+"/rack-z"), &messages.Heartbeat{
		Origin: (&cabin{o: machineOptions("n9", "m9")}).origin(), Epoch: 1})
	for len(b.Envelopes) < maxBatchMessages {
		b.Envelopes = append(b.Envelopes, b.Envelopes[0])
	}
	began, before := time.Now(), memory()
	var sent atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for bad.stream.Send(framed(b)) == nil {
			sent.Add(maxBatchMessages)
		}
	}()
	h.await(t, countPaced, 3)
	works(t, h, n, 1)
	read, took := h.of(countDeadLetters), time.Since(began)
	allowed := int64((took+paceBurst)/messageCost) + 2*maxBatchMessages
	if read > allowed {
		t.Errorf("%d messages were read in %v, more than %d", read, took, allowed)
	}
	if grown := int64(memory()) - int64(before); grown > 32<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	t.Logf("%d sent, %d read in %v", sent.Load(), read, took)
	bad.conn.Close()
	<-stopped
}

// files returns how many files this process may open.
func files(t *testing.T) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}

// TestHalfOpenConnections checks ten thousand connections that send nothing, half of the preface, or single bytes. They
// cost one socket each, are closed soon, and delay no other connection.
func TestHalfOpenConnections(t *testing.T) {
	many := 10_000
	if !testpace.Crowded() {
		many = 500
	}
	if most := files(t)/2 - 200; many > most {
		t.Logf("the limit of open files allows %d connections", most)
		many = most
	}
	h, n := pair(t)
	before, goroutines := memory(), runtime.NumGoroutine()
	open := make([]net.Conn, 0, many)
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	began := time.Now()
	for i := range many {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if i%2 == 1 {
			io.WriteString(c, firstWords[:i%len(firstWords)])
		}
		if i%1000 == 999 {
			works(t, h, n, uint64(i))
		}
	}
	works(t, h, n, 1<<40)
	grown := int64(memory()) - int64(before)
	t.Logf("%d connections in %v: %d KiB and %.1f goroutines each", many, time.Since(began).Round(time.Millisecond),
		grown/int64(many)>>10, float64(runtime.NumGoroutine()-goroutines)/float64(many))
	if grown > int64(many)*10<<10 {
		t.Errorf("%d half-open connections cost %d MiB", many, grown>>20)
	}
	// A new node is accepted among them.
	works(t, h, newCabin(t, machineOptions("n2", "m2", h.address)), 1)
	// A byte each second does not extend the time.
	slow := open[0]
	for i := 0; ; i++ {
		slow.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := slow.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			break
		}
		if time.Since(began) > connectTimeout+patience {
			t.Fatal("a connection that trickles is still open")
		}
		slow.Write([]byte(firstWords[i%len(firstWords):][:1]))
	}
	eventually(t, "all are closed", func() bool { return runtime.NumGoroutine() < goroutines+50 })
}

func isTimeout(err error) bool {
	e, is := err.(net.Error)
	return is && e.Timeout()
}

// TestOtherProtocols checks that a connection with another protocol or invalid HTTP/2 is closed.
func TestOtherProtocols(t *testing.T) {
	h, n := pair(t)
	for _, words := range []string{
		"GET / HTTP/1.1\r\nHost: scheduler.example\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 64),
		firstWords + strings.Repeat("\xff", 64), strings.Repeat("\x00", 1<<16),
	} {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, words)
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil && isTimeout(err) {
			t.Errorf("%.20q keeps its connection", words)
		}
		c.Close()
	}
	works(t, h, n, 1)
}

// TestReaderPanicIsOneMessage checks that a panic in the reader loses one message, not the process.
func TestReaderPanicIsOneMessage(t *testing.T) {
	h, n := pair(t)
	h.system.ProcessRegistry.Add(bomb{}, logsPath+"-bomb")
	n.system.Root.Send(actor.NewPID("scheduler", logsPath+"-bomb"), samples(n)[12])
	h.await(t, countPanicked, 1)
	works(t, h, n, 1)
}

type bomb struct{}

func (bomb) SendUserMessage(*actor.PID, any)   { panic(fmt.Errorf("boom")) }
func (bomb) SendSystemMessage(*actor.PID, any) {}
func (bomb) Stop(*actor.PID)                   {}
