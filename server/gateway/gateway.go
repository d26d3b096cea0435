// Package gateway serves the client API, using the actors of this process.
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

// This file defines the gateway and how a process registers it. A gateway decides nothing: it checks a call, adds
// the caller's identity, passes the call to the Scheduler or the Mirror, and returns the answer. It stores nothing
// except open calls, so the process may be killed at any time.

const (
	// callTimeout is the deadline of a call that brings none.
	callTimeout = 30 * time.Second
	// maxConnectionStreams limits the open calls on one connection.
	maxConnectionStreams = 128
	// maxRequestBytes limits the size of a request. A message may have MaxMessageBytes. The nodes' link uses
	// the same server and adds an envelope to its messages.
	maxRequestBytes = messages.MaxMessageBytes + 64<<10
	// maxStreams limits the open watches and log readers, because each uses memory while it is open. Package
	// authn limits them per identity.
	maxStreams = 2_048
)

// Leader describes the leading process.
type Leader struct {
	Here    bool   // this process leads
	Address string // client address of the leader, if known
	Epoch   uint64
}

// Store reads what the Mirror does not show: old jobs and earlier attempts. Only client calls use it, never an
// actor, so it may be slow.
type Store interface {
	Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error)
	History(past store.Past) (store.Page, error)
}

// Scripts stores the scripts of jobs, for the leader of an epoch, and reads them.
type Scripts interface {
	KeepScript(epoch uint64, text []byte) error
	Script(digest string) ([]byte, error)
}

// Sealer encrypts and decrypts the secrets of jobs. Each secret is bound to its purpose.
type Sealer interface {
	Seal(text []byte, about ...string) ([]byte, error)
	Open(sealed []byte, about ...string) ([]byte, error)
}

// Passes stores the tokens of users.
type Passes interface {
	KeepPass(epoch uint64, pass *messages.PassRecord) error
	DropPass(epoch uint64, id string) error
	Passes() ([]*messages.PassRecord, error)
}

// Past returns the timeline of the cluster as lines of JSON.
type Past interface {
	Since() int64
	Moments(at, until int64, take func(line []byte) error) (last int64, err error)
	Sums(from, until, step int64, take func(line []byte) error) error
}

// Options holds the settings of a gateway. All are optional.
type Options struct {
	Leader  func() Leader // called for every call; nil: this process always leads
	Peers   actors.Peers  // nil: no node can be reached
	Store   Store         // nil: only jobs that the Mirror shows
	Scripts Scripts       // nil: jobs with scripts are refused
	Passes  Passes        // nil: no tokens for users
	Sealer  Sealer        // nil: jobs with secrets are refused
	Past    func() Past   // nil, or a nil result: there is no timeline
	// Node returns the node that makes a call, from its certificate. If nil, no node is authenticated.
	Node      func(context.Context) (string, error)
	WallMs    func() int64 // time of day, for the expiry of tokens
	Principal func(context.Context) *messages.Principal
	WhoAmI    func(context.Context) *api.WhoAmIReply // nil: all callers are anonymous
	Machine   func(context.Context) string           // node of a call; nil: nodes are not authenticated
	ClusterID string
	Version   string
	Levels    []string // topology levels, coarse to fine
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
	replies   atomic.Uint64 // number of reply processes so far
	streams   atomic.Int64  // open now
	reading   chan struct{} // one value per running read of the history
	pasts     chan struct{} // one value per running read of the timeline
	storing   reply         // free places for calls of stored
	loaded    atomic.Bool   // the Scheduler has read the store
	trouble   trouble       // with writing to the store
	sessions  sessions
	closed    chan struct{}
	closeOnce sync.Once
}

// New creates the gateway of a process. The actors may be created later.
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

// Register registers all services for clients.
func (g *Gateway) Register(s reflection.GRPCServer) {
	api.RegisterSynapseServer(s, g)
	api.RegisterSchedulerServer(s, seedScheduler{g: g})
	grpc_health_v1.RegisterHealthServer(s, health{g: g})
	reflection.Register(s)
}

// ServerOptions returns the server options that enforce the gateway's limits.
func (g *Gateway) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.GuardCall),
		grpc.ChainStreamInterceptor(g.GuardStream),
		grpc.MaxConcurrentStreams(maxConnectionStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(api.MaxReplyBytes),
	}
}

// Close ends all open calls, so that a graceful stop of the server can finish.
func (g *Gateway) Close() { g.closeOnce.Do(func() { close(g.closed) }) }
