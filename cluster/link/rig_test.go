package link

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/remote"
	cmap "github.com/orcaman/concurrent-map"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	testpace "github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// This file owns the test setup: scheduler processes and nodes with real actor systems, on loopback or in memory. Their
// actors only record their messages.

var patience = testpace.Of(20 * time.Second)

// tally records the link's counters.
type tally struct {
	mu sync.Mutex
	by map[string]int64
}

func (t *tally) count(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]int64{}
	}
	t.by[name] += n
}

func (t *tally) of(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[name]
}

func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timeout: not true that %s", what)
		}
	}
}

func (t *tally) await(tb testing.TB, name string, n int64) {
	tb.Helper()
	eventually(tb, fmt.Sprintf("%s is %d; it is %d", name, n, t.of(name)), func() bool { return t.of(name) >= n })
}

var template = sync.OnceValue(stockSystem)

func stockSystem() *actor.ActorSystem {
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
	return actor.NewActorSystem(actor.WithLoggerFactory(quiet))
}

// newSystem returns a real actor system without the three megabytes of default tables. It is never shut down.
func newSystem() *actor.ActorSystem {
	light := *template()
	system := &light
	system.ProcessRegistry = &actor.ProcessRegistryValue{
		ActorSystem: system, Address: "nonhost", LocalPIDs: &actor.SliceMap{LocalPIDs: []cmap.ConcurrentMap{cmap.New()}},
	}
	system.Root = actor.NewRootContext(system, actor.EmptyMessageHeader)
	system.Guardians = actor.NewGuardians(system)
	system.EventStream = eventstream.NewEventStream()
	system.DeadLetter = actor.NewDeadLetter(system)
	return system
}

// heard is a message that an actor received.
type heard struct {
	path    string
	message any
	sender  *actor.PID
}

// ear is an actor at a path that passes all its messages on.
func ear(system *actor.ActorSystem, path string, to func(heard)) {
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		default:
			to(heard{path, ctx.Message(), ctx.Sender()})
		}
	}, actor.WithMailbox(Mailbox))
	if _, err := system.Root.SpawnNamed(props, path); err != nil {
		panic(err)
	}
}

const (
	jobPath  = actors.SchedulerPath + "/job-j-1"
	rackPath = actors.SchedulerPath + "/rack-a.r1"
	logsPath = gatewayPath + "logs-1"
)

var schedulerEars = []string{actors.SchedulerPath, jobPath, rackPath, logsPath}

// hall is a scheduler process on loopback.
type hall struct {
	tally
	tb       testing.TB
	system   *actor.ActorSystem
	server   *Server
	grpc     *grpc.Server
	address  string
	ears     chan heard
	listener net.Listener
	guards   []grpc.ServerOption // options of the authentication in front of it; nil: none
}

func newHall(tb testing.TB, o Options) *hall {
	h := &hall{tb: tb, system: newSystem(), ears: make(chan heard, 1<<16)}
	o.Count = h.count
	h.server = NewServer(h.system, o)
	for _, path := range schedulerEars {
		ear(h.system, path, func(m heard) { h.ears <- m })
	}
	serve(tb, h)
	return h
}

// serve accepts nodes.
func serve(tb testing.TB, h *hall) {
	if h.listener == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		h.listener, h.address = listener, listener.Addr().String()
	}
	h.grpc = grpc.NewServer(append(ServerOptions(h.server.o.Credentials), h.guards...)...)
	h.server.Register(h.grpc)
	go h.grpc.Serve(h.listener)
	tb.Cleanup(h.close)
}

func (h *hall) close() {
	h.server.Close()
	h.grpc.Stop()
}

// say sends from one of the scheduler process's actors.
func (h *hall) say(to *actor.PID, m any, from string) {
	var sender *actor.PID
	if from != "" {
		sender = actor.NewPID(h.system.Address(), from)
	}
	h.system.Root.RequestWithCustomSender(to, m, sender)
}

// hears waits for a message that the function accepts, and skips earlier ones.
func hears(tb testing.TB, ears chan heard, what string, is func(heard) bool) heard {
	tb.Helper()
	for limit := time.After(patience); ; {
		select {
		case m := <-ears:
			if is(m) {
				return m
			}
		case <-limit:
			tb.Fatalf("%s was not received (%d wait)", what, len(ears))
		}
	}
}

func hearsType[M any](tb testing.TB, ears chan heard) heard {
	tb.Helper()
	var want M
	return hears(tb, ears, fmt.Sprintf("%T", want), func(m heard) bool { _, is := m.message.(M); return is })
}

// up waits for a LinkUp of exactly this name.
func (h *hall) up(name string) {
	h.tb.Helper()
	up := actors.LinkUp{Node: topology.NodeID(name)}
	hears(h.tb, h.ears, "LinkUp of "+name, func(m heard) bool { return m.message == up })
}

func (h *hall) down(name string) {
	h.tb.Helper()
	down := actors.LinkDown{Node: topology.NodeID(name)}
	hears(h.tb, h.ears, "LinkDown of "+name, func(m heard) bool { return m.message == down })
}

// cabin is a node agent.
type cabin struct {
	tally
	tb     testing.TB
	o      Options
	system *actor.ActorSystem
	client *Client
	ears   chan heard
}

func machineOptions(id, machine string, schedulers ...string) Options {
	return Options{
		Node: topology.NodeID(id), MachineID: machine, Schedulers: schedulers,
		Incarnation: &messages.Incarnation{BootId: "boot-" + machine, StartedNs: 7},
	}
}

func newCabin(tb testing.TB, o Options) *cabin {
	n := &cabin{tb: tb, o: o, system: newSystem(), ears: make(chan heard, 1<<12)}
	o.Count = n.count
	n.client = Dial(n.system, o)
	ear(n.system, actors.NodePath, func(m heard) { n.ears <- m })
	tb.Cleanup(n.client.Close)
	return n
}

func (n *cabin) say(to *actor.PID, m any) {
	n.system.Root.RequestWithCustomSender(to, m, actor.NewPID(n.system.Address(), actors.NodePath))
}

func (n *cabin) origin() *messages.Origin {
	return &messages.Origin{
		Token: &messages.Token{Epoch: 1, Counter: 3}, Job: "j-1",
		Node: string(n.o.Node), MachineId: n.o.MachineID, Incarnation: n.o.Incarnation,
	}
}

// linked waits until the node's own end is up, which is slightly later than the scheduler's end.
func (n *cabin) linked(h *hall) {
	n.tb.Helper()
	eventually(n.tb, "the machine's end stands", func() bool {
		return n.client.find(actor.NewPID(h.system.Address(), ""), nil) != nil
	})
}

// pair returns a linked scheduler and node.
func pair(tb testing.TB) (*hall, *cabin) {
	h := newHall(tb, Options{})
	n := newCabin(tb, machineOptions("n1", "m1", h.address))
	h.up("n1")
	n.linked(h)
	return h, n
}

// works checks that a well-behaved node is served in both directions.
func works(tb testing.TB, h *hall, n *cabin, seq uint64) {
	tb.Helper()
	n.linked(h)
	n.say(actor.NewPID(h.system.Address(), rackPath), &messages.Heartbeat{Origin: n.origin(), Epoch: 1, Seq: seq})
	beat := hears(tb, h.ears, "the heartbeat", func(m heard) bool {
		b, is := m.message.(*messages.Heartbeat)
		return is && b.Seq == seq && b.Origin.Node == string(n.o.Node)
	})
	h.say(beat.sender, &messages.HeartbeatAck{Epoch: 1, Seq: seq, Incarnation: n.o.Incarnation}, "")
	hears(tb, n.ears, "the acknowledgement", func(m heard) bool {
		a, is := m.message.(*messages.HeartbeatAck)
		return is && a.Seq == seq
	})
}

// stranger is a raw stream under a node's name that sends what the link's own code never would.
type stranger struct {
	tb     testing.TB
	conn   *grpc.ClientConn
	stream remote.Remoting_ReceiveClient
	client remote.RemotingClient
}

func newStranger(tb testing.TB, h *hall, o Options) *stranger {
	tb.Helper()
	s, err := dialStranger(tb, h, o.introduction())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func dialStranger(tb testing.TB, h *hall, md metadata.MD) (*stranger, error) {
	conn, err := grpc.NewClient("passthrough:///"+h.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	client := remote.NewRemotingClient(conn)
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), md))
	tb.Cleanup(cancel)
	stream, err := client.Receive(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := stream.Header()
	if err == nil && one(answer, keyAddress) == "" {
		_, err = stream.Recv()
	}
	return &stranger{tb, conn, stream, client}, err
}

// says sends one batch unchanged.
func (s *stranger) says(b *remote.MessageBatch) {
	s.tb.Helper()
	if err := s.stream.Send(framed(b)); err != nil {
		s.tb.Fatal(err)
	}
}

func framed(b *remote.MessageBatch) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
}

// batchOf returns a correct batch with one message from a Node actor.
func batchOf(node string, to *actor.PID, m proto.Message) *remote.MessageBatch {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return &remote.MessageBatch{
		TypeNames: []string{string(m.ProtoReflect().Descriptor().FullName())}, Targets: []*actor.PID{to},
		Senders:   []*actor.PID{actor.NewPID("node-"+node, actors.NodePath)},
		Envelopes: []*remote.MessageEnvelope{{MessageData: data, Sender: 1}},
	}
}
