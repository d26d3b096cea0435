package link

import (
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Server is a scheduler process's end of all links. It notifies the local Scheduler, while there is one, which nodes
// can be reached. It is the leader's actors.Peers.
type Server struct {
	o         *Options
	system    *actor.ActorSystem
	scheduler *actor.PID
	closed    chan struct{}

	mu      sync.RWMutex
	places  places
	streams map[*machine]struct{} // all that have not ended, with or without a place
	epoch   uint64
	leader  string
	closing bool
	// comeBack is the time in which nodes should return after this process has ended.
	comeBack time.Duration
	running  sync.WaitGroup
}

var (
	errSuperseded = status.Error(codes.Aborted, "a newer stream of this node replaced it")
	errCrowded    = status.Errorf(codes.ResourceExhausted,
		"%d nodes already use this node's name: give each node its own ID", maxMachines)
	errOtherKey = status.Error(codes.PermissionDenied,
		"node is already linked with another key: stop the agent with that key first")
	errClosing = status.Error(codes.Unavailable, "this scheduler is shutting down")
)

// NewServer makes the actor system reachable under the scheduler's address. The caller must call it before it creates
// any actor, because a PID gets its address at its creation.
func NewServer(system *actor.ActorSystem, o Options) *Server {
	s := &Server{
		o: o.completed(), system: system, closed: make(chan struct{}),
		places: places{}, streams: map[*machine]struct{}{},
	}
	system.ProcessRegistry.Address = s.o.Address
	s.scheduler = actor.NewPID(s.o.Address, actors.SchedulerPath)
	out := &sender{o: s.o, may: towardNode, ours: s.o.Address, find: s.find}
	system.ProcessRegistry.RegisterAddressResolver(func(to *actor.PID) (actor.Process, bool) {
		return out, strings.HasPrefix(to.Address, nodePrefix)
	})
	return s
}

// Register adds the link to a grpc.Server that was created with ServerOptions.
func (s *Server) Register(at grpc.ServiceRegistrar) { envelope.Register(at, s) }

// Node returns the PID of a node's Node actor.
func (s *Server) Node(id topology.NodeID) *actor.PID {
	return actor.NewPID(nameOf(id), actors.NodePath)
}

// Receive serves one node's stream, from beginning to end.
func (s *Server) Receive(stream grpc.ServerStream) error {
	who, err := s.o.recognise(stream.Context())
	if err != nil {
		s.o.Count(countRefused, 1)
		return err
	}
	m := &machine{caller: who}
	m.line = newLine(s.o, s.system, stream, s.o.Address, nameOf(who.node), towardScheduler)
	m.line.reader.caller = &m.caller
	if err := s.attach(m); err != nil {
		s.o.Count(countRefused, 1)
		return s.pushBack(stream, err)
	}
	defer s.detach(m)
	// Letters wait in the outbox until the answer has been sent, because the answer must come first.
	if err := stream.SendHeader(s.standing().metadata()); err != nil {
		m.line.end(err)
		return err
	}
	m.line.out.begin()
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		m.line.read()
	}()
	<-m.line.over // the reader, the writer, a newer stream or Close ends it
	return s.pushBack(stream, m.line.why)
}

func (s *Server) standing() standing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return standing{address: s.o.Address, epoch: s.epoch, leader: s.leader}
}

// attach gives a stream its place and notifies the Scheduler.
func (s *Server) attach(m *machine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errClosing
	}
	older, ok := s.places.admit(m)
	if older != nil {
		s.o.Count(countSuperseded, 1)
		s.tell(actors.LinkDown{Node: older.greeted()})
		older.line.end(errSuperseded)
	}
	if !ok && older == nil && s.places.holds(m) {
		s.o.Log.Error("Refused a stream of node %s: it has the machine ID of the linked node, but another "+
			"key", m.node)
		return errOtherKey
	}
	if !ok {
		return errCrowded
	}
	if *m.line.known.Load() != m.line.theirs {
		s.o.Count(countSecond, 1)
		s.o.Log.Debug("A second host claims to be node %s: %s", m.node, m.caller)
	}
	s.streams[m] = struct{}{}
	s.running.Add(1)
	s.o.Count(countUp, 1)
	s.tell(actors.LinkUp{Node: m.greeted()})
	return nil
}

// greeted returns the name under which the Scheduler asks for the node's Hello. Node turns it into an address.
func (m *machine) greeted() topology.NodeID {
	return topology.NodeID(strings.TrimPrefix(*m.line.known.Load(), nodePrefix))
}

func (s *Server) detach(m *machine) {
	defer s.running.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	m.line.end(errSilent)
	delete(s.streams, m)
	s.o.Count(countDown, 1)
	if s.places.leave(m) {
		s.tell(actors.LinkDown{Node: m.greeted()})
	}
}

// find returns the line to a node. A node that the leader welcomes gets the name.
func (s *Server) find(to *actor.PID, message any) *line {
	s.mu.RLock()
	m, holds := s.places.find(to.Address)
	s.mu.RUnlock()
	if m == nil {
		return nil
	}
	if _, welcome := message.(*messages.Welcome); welcome && !holds {
		s.promote(m)
	}
	return m.line
}

func (s *Server) promote(m *machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, holds := s.places.find(m.own()); found != m || holds {
		return // it has left or been promoted meanwhile
	}
	s.tell(actors.LinkDown{Node: m.greeted()}) // it is no longer greeted under this name
	if demoted := s.places.promote(m); demoted != nil {
		s.tell(actors.LinkUp{Node: demoted.greeted()})
	}
}

// tell sends a message to the Scheduler, which exists only while this process leads.
func (s *Server) tell(message any) {
	if _, leads := s.system.ProcessRegistry.GetLocal(actors.SchedulerPath); leads {
		s.system.Root.Send(s.scheduler, message)
	}
}

// Lead makes this process the leader. It must be called right after leader.Assemble. When the Scheduler exists, it
// receives every open stream.
func (s *Server) Lead(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.leader = epoch, ""
	if !s.closing {
		s.running.Add(1)
		go s.introduce()
	}
}

// Follow records the leading process, as host:port, for the nodes that connect here.
func (s *Server) Follow(leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.leader = 0, leader
}

// introduce waits for the Scheduler and sends it the open streams. The function attach reports later ones.
func (s *Server) introduce() {
	defer s.running.Done()
	for {
		if _, there := s.system.ProcessRegistry.GetLocal(actors.SchedulerPath); there {
			break
		}
		select {
		case <-s.o.Clock.After(assembleStep):
		case <-s.closed:
			return
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for m := range s.streams {
		if found, _ := s.places.find(*m.line.known.Load()); found == m {
			s.tell(actors.LinkUp{Node: m.greeted()})
		}
	}
}

// Close ends every stream and waits until no goroutine of the link runs. It must come before the grpc.Server's stop,
// because a graceful stop would wait for streams that never end by themselves.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closing {
		s.closing, s.comeBack = true, comeBackWithin(len(s.streams))
		close(s.closed)
	}
	for m := range s.streams {
		m.line.end(errClosing)
	}
	s.mu.Unlock()
	s.running.Wait()
}
