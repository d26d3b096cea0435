package gateway

// This file defines the environments of the gateway's tests: one with fake actors, and a complete cluster in this
// process with real actors, the memory store and nodes with fake containers.

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// patience limits how long a test waits for an expected event.
var patience = pace.Of(20 * time.Second)

// room holds actor systems that reach each other by address. It is also the host, clock and log of all their
// actors.
type room struct {
	actors.NoLog
	tb      testing.TB
	start   time.Time
	mu      sync.Mutex
	systems map[string]*actor.ActorSystem
	lines   []string
	counts  map[string]int64
	jobs    int
	born    func(actors.Kind) // called when an actor is created; may be nil
}

func newRoom(tb testing.TB) *room {
	return &room{tb: tb, start: time.Now(), systems: map[string]*actor.ActorSystem{}, counts: map[string]int64{}}
}

func (r *room) system(address string) *actor.ActorSystem {
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
	s := actor.NewActorSystem(actor.WithLoggerFactory(quiet))
	s.ProcessRegistry.Address = address
	s.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return systemLink{r, pid.Address}, true
	})
	r.mu.Lock()
	r.systems[address] = s
	r.mu.Unlock()
	return s
}

// cut disconnects a node from the network.
func (r *room) cut(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.systems, address)
}

// systemLink passes messages to another system of the room, if it exists.
type systemLink struct {
	r  *room
	to string
}

func (w systemLink) SendUserMessage(pid *actor.PID, m any) {
	w.r.mu.Lock()
	to := w.r.systems[w.to]
	w.r.mu.Unlock()
	if to != nil {
		_, message, sender := actor.UnwrapEnvelope(m)
		to.Root.RequestWithCustomSender(actor.NewPID(pid.Address, pid.Id), message, sender)
	}
}
func (systemLink) SendSystemMessage(*actor.PID, any) {}
func (systemLink) Stop(*actor.PID)                   {}

func (r *room) Props(kind actors.Kind, make actor.Producer) *actor.Props {
	if r.born == nil {
		return actor.PropsFromProducer(make, actor.WithMailbox(link.Mailbox))
	}
	return actor.PropsFromFunc(nil, actor.WithProducer(func() actor.Actor {
		return &newborn{make(), func() { r.born(kind) }}
	}), actor.WithMailbox(link.Mailbox))
}

// newborn runs a function before its actor's first message.
type newborn struct {
	actor.Actor
	first func()
}

func (n *newborn) Receive(ctx actor.Context) {
	if _, is := ctx.Message().(*actor.Started); is {
		n.first()
	}
	n.Actor.Receive(ctx)
}
func (r *room) Panicked(who *actor.PID, reason any, _ bool) {
	r.tb.Errorf("%s panicked: %v", who.Id, reason)
}
func (r *room) Deposed(uint64)                            { r.tb.Error("deposed") }
func (r *room) Moved(actors.Kind, string, string, string) {}
func (r *room) Now() actors.Instant                       { return actors.Instant(time.Since(r.start)) }
func (r *room) WallMs() int64                             { return time.Now().UnixMilli() }
func (r *room) Node(id topology.NodeID) *actor.PID {
	return actor.NewPID("node-"+string(id), actors.NodePath)
}
func (*room) Took(string, time.Duration) {}

func (r *room) Count(name string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name] += n
}
func (r *room) Info(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// said returns the log lines with this prefix.
func (r *room) said(prefix string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if strings.HasPrefix(l, prefix) {
			lines = append(lines, l)
		}
	}
	return lines
}

type roomClock struct {
	*room
	system *actor.ActorSystem
}

func (k roomClock) After(d time.Duration, to *actor.PID, m any) {
	time.AfterFunc(d, func() { k.system.Root.Send(to, m) })
}

// lead starts a leader that accepts jobs.
func (r *room) lead(edit ...func(*leader.Ports)) (*actor.ActorSystem, *store.Memory) {
	s, memory := r.assemble(edit...)
	g := New(s, Options{})
	eventually(r.tb, "the leader takes jobs", func() bool {
		return g.serving(context.Background()) == grpc_health_v1.HealthCheckResponse_SERVING
	})
	return s, memory
}

// assemble creates a leader over the memory store, which the leader may not have read yet.
func (r *room) assemble(edit ...func(*leader.Ports)) (*actor.ActorSystem, *store.Memory) {
	s := r.system("scheduler")
	memory := store.NewMemory()
	epoch, err := memory.Lead("test")
	if err != nil {
		r.tb.Fatal(err)
	}
	port := store.NewPort(memory, s)
	r.tb.Cleanup(func() {
		if err := port.Close(); err != nil {
			r.tb.Error(err)
		}
	})
	p := leader.Ports{
		Ports: actors.Ports{
			System: s, Host: r, Clock: roomClock{r, s}, Log: r, Constants: actors.DefaultConstants(),
		},
		Epoch: epoch, ClusterID: "test", Levels: []string{"zone", "rack"}, Store: port, Peers: r,
		Calls:    actors.Tagged{To: r, Tag: actors.TagCalls},
		Planner:  policy.Default{},
		NewJobID: func() topology.JobID { r.jobs++; return topology.JobID(fmt.Sprintf("job-%d", r.jobs)) },
	}
	for _, e := range edit {
		e(&p)
	}
	leader.Assemble(p)
	eventually(r.tb, "the Scheduler is there", func() bool {
		_, there := s.ProcessRegistry.GetLocal(actors.SchedulerPath)
		return there
	})
	return s, memory
}

// servedGateway calls a gateway through a connection.
type servedGateway struct {
	*Gateway
	api.SynapseClient
	tb   testing.TB
	conn *grpc.ClientConn
}

func (r *room) door(s *actor.ActorSystem, o Options) *servedGateway {
	r.tb.Helper()
	if o.Peers == nil {
		o.Peers = r
	}
	o.Log, o.Count = r, r.Count
	g := New(s, o)
	server := grpc.NewServer(append(g.ServerOptions(), envelope.ServerOption())...)
	g.Register(server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///door", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		r.tb.Fatal(err)
	}
	d := &servedGateway{g, api.NewSynapseClient(conn), r.tb, conn}
	r.tb.Cleanup(func() {
		g.Close()
		server.GracefulStop() // returns only after every stream has ended
		if err := <-served; err != nil {
			r.tb.Error(err)
		}
		conn.Close()
		d.nothingOpen()
	})
	return d
}

// nothingOpen checks that every reply process was removed.
func (d *servedGateway) nothingOpen() {
	for _, bucket := range d.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, name := range bucket.Keys() {
			if strings.HasPrefix(name, replyPath) {
				d.tb.Errorf("%s was left open", name)
			}
		}
	}
}

// script starts fake actors that answer for a Scheduler and a Mirror.
func (r *room) script(scheduler, mirror actor.ReceiveFunc) *actor.ActorSystem {
	s := r.system("scheduler")
	for path, receive := range map[string]actor.ReceiveFunc{actors.SchedulerPath: scheduler, actors.MirrorPath: mirror} {
		if receive == nil {
			continue
		}
		if _, err := s.Root.SpawnNamed(actor.PropsFromFunc(receive, actor.WithMailbox(link.Mailbox)), path); err != nil {
			r.tb.Fatal(err)
		}
	}
	return s
}

func timely(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for limit := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			tb.Fatalf("never: %s", what)
		}
	}
}

func gpuJob(name string, replicas int32, gpus int64) *messages.JobSpec {
	return &messages.JobSpec{
		Name: name, Image: "host", Command: []string{"true"},
		Gang: &messages.GangSpec{ReplicasMin: replicas, ReplicasMax: replicas},
		Each: &messages.Resources{MilliCpu: 1000, MilliGpu: gpus * 1000},
	}
}

func (d *servedGateway) submit(spec *messages.JobSpec) string {
	d.tb.Helper()
	r, err := d.SynapseClient.Submit(timely(d.tb), &messages.Submit{Spec: spec})
	if err != nil {
		d.tb.Fatal(err)
	}
	return r.Job
}

func (d *servedGateway) phase(job string) string {
	d.tb.Helper()
	r, err := d.SynapseClient.GetJob(timely(d.tb), &messages.GetJob{Job: job})
	if err != nil {
		d.tb.Fatal(err)
	}
	return r.Job.Phase
}

func (d *servedGateway) nodes() int {
	d.tb.Helper()
	r, err := d.SynapseClient.ListNodes(timely(d.tb), &messages.ListNodes{})
	if err != nil {
		d.tb.Fatal(err)
	}
	up := 0
	for _, n := range r.Nodes {
		if n.Phase == "up" {
			up++
		}
	}
	return up
}

// refused checks that an error has this code, the matching gRPC code, and the text.
func refused(t *testing.T, err error, code messages.Code, grpcCode codes.Code, words string) {
	t.Helper()
	o := api.OutcomeOf(err)
	if o.GetCode() != code || status.Code(err) != grpcCode || !strings.Contains(err.Error(), words) {
		t.Errorf("want %v as %v with %q, got %v: %v", code, grpcCode, words, o, err)
	}
}
