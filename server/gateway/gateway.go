// Package gateway serves the client API to people and programs, over the actors of this process.
package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a gateway is made of and how a process mounts it. A gateway decides nothing: it checks a call,
// adds who makes it, passes it to the Scheduler or the Mirror, and turns the answer into the call's. It keeps nothing
// but open calls, so a process may be ended at any time.

const (
	// callTimeout is the time of a call that brings no deadline of its own.
	callTimeout = 30 * time.Second
	// maxConnectionStreams bounds the calls that are open on one connection.
	maxConnectionStreams = 128
	// maxRequestBytes bounds what comes in. A message may have MaxMessageBytes, and the machines' link, which shares the
	// server, puts an envelope around its own.
	maxRequestBytes = messages.MaxMessageBytes + 64<<10
	// maxStreams bounds all open watches and readers of output: each holds memory for as long as its client likes.
	// How many of them one identity may have is the gate's to say.
	maxStreams = 2_048
)

// Leader names the process that leads.
type Leader struct {
	Here    bool   // this process does
	Address string // where clients reach the one that does, if that is known
	Epoch   uint64
}

// Store reads what the Mirror does not show: jobs that ended long ago, and earlier attempts. No actor calls it, only
// the clients' calls themselves, so it may take time.
type Store interface {
	Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error)
	History(past store.Past) (store.Page, error)
}

// Scripts keeps the texts of scripts that come with jobs, as the leader of an epoch, and reads them.
type Scripts interface {
	KeepScript(epoch uint64, text []byte) error
	Script(digest string) ([]byte, error)
}

// Sealer seals the secrets of jobs, and opens what it sealed for what it is about.
type Sealer interface {
	Seal(text []byte, about ...string) ([]byte, error)
	Open(sealed []byte, about ...string) ([]byte, error)
}

// Passes keeps the tokens of people.
type Passes interface {
	KeepPass(epoch uint64, pass *messages.PassRecord) error
	DropPass(epoch uint64, id string) error
	Passes() ([]*messages.PassRecord, error)
}

// Past tells how the cluster was, as the leader has kept it; lines of JSON.
type Past interface {
	Since() int64
	Moments(at, until int64, take func(line []byte) error) (last int64, err error)
	Sums(from, until, step int64, take func(line []byte) error) error
}

// Options configure a gateway. Each of them may be left out.
type Options struct {
	Leader  func() Leader // asked at every call; nil: this process always leads
	Peers   actors.Peers  // nil: no machine can be reached
	Store   Store         // nil: only what the Mirror shows
	Scripts Scripts       // nil: jobs cannot bring scripts
	Passes  Passes        // nil: people have no tokens
	Sealer  Sealer        // nil: jobs cannot bring secrets
	Past    func() Past   // answers nil where nothing is kept, as without it
	// Node is the machine that makes a call, as its certificate names it; nil: nobody proves to be one.
	Node      func(context.Context) (string, error)
	WallMs    func() int64 // the time of day, by which tokens are over
	Principal func(context.Context) *messages.Principal
	WhoAmI    func(context.Context) *api.WhoAmIReply // nil: everybody is anonymous
	Machine   func(context.Context) string           // that makes a call; nil: none proves which it is
	ClusterID string
	Version   string
	Levels    []string // of the fabric, coarse to fine
	Log       actors.Log
	Count     func(name string, n int64)
	Clock     clock.Clock
}

// Gateway serves the client API.
type Gateway struct {
	api.UnimplementedSynapseServer
	o         Options
	system    *actor.ActorSystem
	scheduler *actor.PID
	mirror    *actor.PID
	replies   atomic.Uint64 // reply processes ever made: their names
	streams   atomic.Int64  // open now
	reading   chan struct{} // a place for each that reads history now
	pasts     chan struct{} // likewise of the past
	storing   reply         // the free places for calls of stored
	loaded    atomic.Bool   // the Scheduler has read the store
	trouble   trouble       // with writing to the store
	sessions  sessions
	closed    chan struct{}
	closeOnce sync.Once
}

// New makes the gateway of a process. Its actors may be assembled later.
func New(system *actor.ActorSystem, o Options) *Gateway {
	if o.Leader == nil {
		o.Leader = func() Leader { return Leader{Here: true} }
	}
	if o.Principal == nil {
		o.Principal = func(context.Context) *messages.Principal { return &messages.Principal{Name: "anonymous"} }
	}
	if o.WhoAmI == nil {
		o.WhoAmI = func(ctx context.Context) *api.WhoAmIReply {
			return &api.WhoAmIReply{Name: o.Principal(ctx).GetName()}
		}
	}
	if o.Log == nil {
		o.Log = actors.NoLog{}
	}
	if o.Count == nil {
		o.Count = func(string, int64) {}
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	address := system.ProcessRegistry.Address
	return &Gateway{
		o: o, system: system, closed: make(chan struct{}), reading: make(chan struct{}, maxReading),
		pasts:     make(chan struct{}, maxPasts),
		storing:   storePlaces(),
		scheduler: actor.NewPID(address, actors.SchedulerPath),
		mirror:    actor.NewPID(address, actors.MirrorPath),
	}
}

// Register mounts all services that clients may call.
func (g *Gateway) Register(s reflection.GRPCServer) {
	api.RegisterSynapseServer(s, g)
	api.RegisterSchedulerServer(s, seedScheduler{g: g})
	grpc_health_v1.RegisterHealthServer(s, health{g: g})
	reflection.Register(s)
}

// ServerOptions are the options that the server must be made with for the limits to hold.
func (g *Gateway) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.GuardCall),
		grpc.ChainStreamInterceptor(g.GuardStream),
		grpc.MaxConcurrentStreams(maxConnectionStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(api.MaxReplyBytes),
	}
}

// Close ends all open calls, so that a server which waits for them can end.
func (g *Gateway) Close() { g.closeOnce.Do(func() { close(g.closed) }) }
