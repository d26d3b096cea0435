package link

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// deaf is a stream from which nothing arrives.
type deaf struct{ ctx context.Context }

func (d deaf) Context() context.Context { return d.ctx }
func (deaf) SendMsg(any) error          { return nil }
func (deaf) RecvMsg(any) error          { return errSilent }

// guard is a process that checks the messages to its path.
type guard struct {
	t    *testing.T
	path string
}

func (g guard) SendUserMessage(to *actor.PID, said any) {
	_, body, sender := actor.UnwrapEnvelope(said)
	m := body.(spoken)
	row := towardScheduler[typeName(m)]
	switch {
	case to.Id != g.path || row == nil || !covers(row.to, g.path):
		g.t.Errorf("%s came to %s", typeName(m), g.path)
	case m.Validate() != nil:
		g.t.Errorf("%v", m.Validate())
	case row.from != "" && (sender == nil || sender.Address != "node-n1" || sender.Id != actors.NodePath):
		g.t.Errorf("from %v", sender)
	}
	fact, ok := m.(interface{ GetOrigin() *messages.Origin })
	if ok && (fact.GetOrigin().Node != "n1" || fact.GetOrigin().MachineId != "m1") {
		g.t.Errorf("a forged %v came through", m)
	}
}
func (g guard) SendSystemMessage(*actor.PID, any) { g.t.Error("a system message came through") }
func (g guard) Stop(*actor.PID)                   { g.t.Error("a stop came through") }

// FuzzReader checks that the reader never panics and never delivers a message that the table does not contain, whatever
// bytes a peer sends.
func FuzzReader(f *testing.F) {
	n := &cabin{o: machineOptions("n1", "m1")}
	for _, m := range samples(n) {
		to := "nowhere"
		if row := towardScheduler[typeName(m)]; row != nil {
			to = concrete(row.to)
		}
		add(f, batchOf("n1", actor.NewPID("scheduler", to), m))
	}
	beat := samples(n)[1].(*messages.Heartbeat)
	for _, c := range hostileBatches(beat, actor.NewPID("scheduler", rackPath)) {
		b := batchOf("n1", actor.NewPID("scheduler", rackPath), beat)
		c.edit(b, b.Envelopes[0])
		if proto.Size(b) < 1<<16 {
			add(f, b)
		}
	}
	guarded := append([]string{
		"guardian$1", "synapse", actors.JournalPath, actors.MirrorPath, jobPath + "/attempt-1.3",
	}, schedulerEars...)
	f.Fuzz(func(t *testing.T, frame []byte) {
		var counts tally
		o := (Options{Count: counts.count}).completed()
		system := newSystem()
		system.ProcessRegistry.Address = "scheduler"
		for _, path := range guarded {
			system.ProcessRegistry.Add(guard{t, path}, path)
		}
		l := newLine(o, system, deaf{context.Background()}, "scheduler", "node-n1", towardScheduler)
		l.reader.caller = &caller{node: "n1", machine: "m1", boot: "boot-m1", startedNs: 7}
		l.reader.frame(frame)
		if counts.of(countPanicked) > 0 {
			t.Error("the reader panicked")
		}
	})
}

func add(f *testing.F, b *remote.MessageBatch) {
	data, err := proto.Marshal(framed(b))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
}

// TestOwnBatchesAreRead checks that the fullest batches and the largest messages that this version writes are read.
func TestOwnBatchesAreRead(t *testing.T) {
	n := &cabin{o: machineOptions("n1", "m1")}
	var counts tally
	o := (Options{Count: counts.count}).completed()
	system := newSystem()
	system.ProcessRegistry.Address = "scheduler"
	for i := range 100 {
		path := actors.JobPath(topology.JobID("j" + strings.Repeat("x", i)))
		system.ProcessRegistry.Add(guard{t, path}, path)
	}
	system.ProcessRegistry.Add(guard{t, rackPath}, rackPath)
	l := newLine(o, system, deaf{context.Background()}, "scheduler", "node-n1", towardScheduler)
	l.reader.caller = &caller{node: "n1", machine: "m1", boot: "boot-m1", startedNs: 7}
	say := func(batch []envelope.Letter) {
		frame := envelope.Pack("node-n1", "scheduler", batch).Bytes()
		checkLibraryReads(t, frame, batch)
		l.reader.frame(frame)
	}
	sender := actor.NewPID("node-n1", actors.NodePath)
	var batch []envelope.Letter
	for i := range maxBatchMessages {
		to := actor.NewPID("scheduler", actors.JobPath(topology.JobID("j"+strings.Repeat("x", i%100))))
		one, ok := written(towardScheduler, "node-n1", to, &actor.MessageEnvelope{Message: samples(n)[3+i%9], Sender: sender})
		if !ok {
			t.Fatalf("%T may not be sent", samples(n)[3+i%9])
		}
		batch = append(batch, one)
	}
	batch[7].Sender = "" // 7 is an Exited, which needs a sender: read, and refused
	say(batch)
	if got := counts.of(countReceived); got != maxBatchMessages-1 || counts.of(countForbidden) != 1 {
		t.Errorf("%d of %d were read: %v", got, maxBatchMessages, counts.by)
	}
	full := &actor.MessageEnvelope{Message: fullest(n), Sender: sender}
	report, ok := written(towardScheduler, "node-n1", actor.NewPID("scheduler", rackPath), full)
	if !ok {
		t.Fatal("the fullest ledger may not be sent")
	}
	say([]envelope.Letter{report})
	if got := counts.of(countReceived); got != maxBatchMessages {
		t.Errorf("the fullest ledger of %d bytes was not read: %v", len(report.Data), counts.by)
	}
}

// checkLibraryReads checks that Proto.Actor's own code reads a frame.
func checkLibraryReads(t *testing.T, frame []byte, batch []envelope.Letter) {
	t.Helper()
	var m remote.RemoteMessage
	if err := proto.Unmarshal(frame, &m); err != nil {
		t.Fatal(err)
	}
	b := m.GetMessageBatch()
	for i, e := range b.GetEnvelopes() {
		l := batch[i]
		if b.TypeNames[e.TypeId] != l.Kind || b.Targets[e.Target].Id != l.To || string(e.MessageData) != string(l.Data) ||
			e.Sender == 0 != (l.Sender == "") || e.Sender > 0 && b.Senders[e.Sender-1].Id != l.Sender {
			t.Errorf("letter %d is read as %v", i, e)
		}
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err != nil || len(b.GetEnvelopes()) != len(batch) || len(again) != len(frame) {
		t.Errorf("%d of %d letters, %d of %d bytes, %v", len(b.GetEnvelopes()), len(batch), len(again), len(frame), err)
	}
}

// fullest returns a report with as many small allocations as fit into a message.
func fullest(n *cabin) *messages.Report {
	r := samples(n)[2].(*messages.Report)
	r.Ledger = &messages.LedgerReport{Total: &messages.Resources{MilliCpu: 1 << 20}, Free: &messages.Resources{}}
	for i := range 58_000 {
		r.Ledger.Slices = append(r.Ledger.Slices, &messages.SliceReport{
			Token: &messages.Token{Epoch: 1, Counter: uint64(i)}, Job: "j000001", State: messages.SliceState_SLICE_STATE_STARTED,
			Grants: []*messages.Grant{{Rank: 1, Amount: &messages.Resources{MilliCpu: 1, MemoryBytes: 1 << 30}}},
			Exits:  []*messages.Exit{{Rank: 1, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 1, AtUnixMs: 1 << 40}},
		})
	}
	return r
}

// TestEmptyPartsCostNothing checks that a frame of empty parts is refused before it is decoded, so it costs no memory.
func TestEmptyPartsCostNothing(t *testing.T) {
	o := (Options{}).completed()
	beat := samples(&cabin{o: machineOptions("n1", "m1")})[1].(*messages.Heartbeat)
	for _, c := range hostileBatches(beat, actor.NewPID("scheduler", rackPath)) {
		if !strings.Contains(c.name, "nothing but") {
			continue
		}
		b := batchOf("n1", actor.NewPID("scheduler", rackPath), beat)
		c.edit(b, b.Envelopes[0])
		frame, err := proto.Marshal(framed(b))
		if err != nil {
			t.Fatal(err)
		}
		l := newLine(o, newSystem(), deaf{context.Background()}, "scheduler", "node-n1", towardScheduler)
		l.reader.caller = &caller{node: "n1", machine: "m1", boot: "boot-m1", startedNs: 7}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l.reader.frame(frame)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<18 {
			t.Errorf("%s, %d bytes, took %d bytes", c.name, len(frame), took)
		}
	}
}
