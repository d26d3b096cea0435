package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/topology"
)

// This file owns exec sessions in tasks, between who asked for one and its machine. The machine is told through
// its Node; then its agent comes by a stream of its own, and what is said goes from one stream to the other. No actor
// sees a byte of it, nothing is kept here, and a side that does not read holds up the other one: the streams' own
// windows are all that is under way.

// comePatience bounds the time that a machine may take to come for what it was told of.
const comePatience = 10 * time.Second

// tellAgain is when it is told once more: a machine that has not heard yet who leads says nothing to a new leader. One
// that comes twice is served once.
const tellAgain = time.Second

// sessions has the sessions that wait for their machine, by names that nobody guesses.
type sessions struct {
	mu  sync.Mutex
	all map[string]*session
}

// session is one exec session, as it is carried here.
type session struct {
	node topology.NodeID
	came chan grpc.BidiStreamingServer[api.ExecOut, api.ExecIn] // the machine
	over chan struct{}                                          // closed when its caller has gone, or its end was told
}

func (s *sessions) open(node topology.NodeID) (name string, of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*session{}
	}
	name = rand.Text()
	of = &session{
		node: node, came: make(chan grpc.BidiStreamingServer[api.ExecOut, api.ExecIn], 1), over: make(chan struct{}),
	}
	s.all[name] = of
	return name, of
}

// take finds a session for the machine that comes for it, once.
func (s *sessions) take(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[name]
	delete(s.all, name)
	return of
}

// Exec runs an exec session in a task, and carries its streams.
func (g *Gateway) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	q, job, err := g.asked(stream)
	if err != nil {
		return err
	}
	defer g.leave()
	return g.execute(q, job, stream)
}

// asked is the first request of a stream, and the job that it is about; the stream counts from here on.
func (g *Gateway) asked(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) (
	*api.ExecIn, *messages.JobStatus, error) {
	q, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	q.Principal = g.o.Principal(stream.Context())
	job, err := g.enterFor(stream.Context(), q, q.Job)
	return q, job, err
}

// execute runs what was asked for, in a task of the job.
func (g *Gateway) execute(q *api.ExecIn, job *messages.JobStatus,
	stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	ctx := stream.Context()
	task, node, err := placeOf(job, q.Rank)
	if err != nil {
		return err
	}
	name, s := g.sessions.open(node)
	defer close(s.over)
	defer g.sessions.take(name)
	machine, err := g.summon(ctx, s, &messages.ExecTask{
		Id: task, Job: job.GetRecord().GetId(), Epoch: g.o.Leader().Epoch, Session: name,
	})
	if err != nil {
		return err
	}
	g.o.Count("gateway.execs", 1)
	return g.carry(q, stream, machine)
}

// placeOf returns the place at which a rank of a job runs.
func placeOf(job *messages.JobStatus, rank int32) (*messages.TaskId, topology.NodeID, error) {
	a := job.GetAttempt()
	refused := func(code messages.Code, field, text, hint string) error {
		return api.StatusOf(&messages.Outcome{Code: code, Field: field, Text: text, Hint: hint})
	}
	if job.GetRecord().GetState().Terminal() || len(a.GetPlaces()) == 0 {
		return nil, "", refused(messages.Code_CODE_CONFLICT, "job", "job is "+job.GetPhase()+", not running",
			"use a running job")
	}
	for _, p := range a.GetPlaces() {
		switch {
		case p.GetRank() != rank:
		case p.GetExit() != nil || a.GetEnd() != nil:
			return nil, "", refused(messages.Code_CODE_CONFLICT, "rank", fmt.Sprintf("rank %d has ended", rank),
				"use a running rank")
		default:
			return &messages.TaskId{Token: a.GetToken(), Rank: rank}, topology.NodeID(p.GetNode()), nil
		}
	}
	return nil, "", refused(messages.Code_CODE_NOT_FOUND, "rank",
		fmt.Sprintf("job has ranks 0 to %d, and no rank %d", len(a.GetPlaces())-1, rank), "")
}

// summon tells the machine, and waits until it comes.
func (g *Gateway) summon(ctx context.Context, s *session, m *messages.ExecTask) (
	grpc.BidiStreamingServer[api.ExecOut, api.ExecIn], error) {
	if g.o.Peers == nil {
		return nil, api.StatusOf(unavailable("nodes are not reachable from this scheduler",
			"try again in a few seconds"))
	}
	refused := make(reply, 1)
	pid, done := g.open(refused)
	defer done()
	to := g.o.Peers.Node(s.node)
	for limit := g.o.Clock.After(comePatience); ; {
		g.system.Root.RequestWithCustomSender(actor.NewPID(to.Address, actors.NodePath), m, pid)
		select {
		case machine := <-s.came:
			return machine, nil
		case got := <-refused:
			return nil, api.StatusOf(notCome(s.node, m, got))
		case <-g.o.Clock.After(tellAgain):
		case <-limit:
			return nil, api.StatusOf(unavailable("node "+string(s.node)+" does not answer",
				"try again in a few seconds"))
		case <-ctx.Done():
			return nil, lapsed(ctx.Err())
		case <-g.closed:
			return nil, api.StatusOf(closing())
		}
	}
}

// notCome is why a machine does not come for what it was told of.
func notCome(node topology.NodeID, m *messages.ExecTask, got any) *messages.Outcome {
	text := "node " + string(node) + " is not reachable"
	if r, ok := got.(*messages.ExecRefused); ok && r.Session == m.Session {
		text = fmt.Sprintf("rank %d: %s", m.Id.Rank, r.Text)
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "job", Text: text, Hint: "use a running task",
	}
}

// carry hands on what either side says, until the process has ended or one of the two has gone.
func (g *Gateway) carry(first *api.ExecIn, client grpc.BidiStreamingServer[api.ExecIn, api.ExecOut],
	machine grpc.BidiStreamingServer[api.ExecOut, api.ExecIn]) error {
	if err := machine.Send(first); err != nil {
		return lostMachine()
	}
	gone := make(chan error, 2)
	for _, way := range []func() error{
		func() error { return fromClient(client, machine) },
		func() error { return fromMachine(machine, client) },
	} {
		go func() { gone <- g.guarded(api.Synapse_Exec_FullMethodName, way) }()
	}
	select {
	case err := <-gone:
		return err
	case <-client.Context().Done():
		return lapsed(client.Context().Err())
	case <-g.closed:
		return api.StatusOf(closing())
	}
}

// Most of what is said is bytes in one of these fields, and goes on as it came.
var (
	inputs  = numbersOf(&api.ExecIn{}, "stdin")
	outputs = numbersOf(&api.ExecOut{}, "stdout", "stderr")
)

func numbersOf(m proto.Message, names ...protoreflect.Name) (numbers []protowire.Number) {
	for _, name := range names {
		numbers = append(numbers, m.ProtoReflect().Descriptor().Fields().ByName(name).Number())
	}
	return numbers
}

// next returns what a stream says next: bytes alone, as they came, or a message, decoded into this one.
func next(from grpc.ServerStream, message proto.Message, bytes []protowire.Number) (any, error) {
	piece := &envelope.Passed{}
	if err := from.RecvMsg(piece); err != nil {
		return nil, err
	}
	if piece.Bears(bytes...) {
		return piece, nil
	}
	return message, piece.Into(message)
}

// fromClient hands on what is for the process. A client that has said all still listens.
func fromClient(client, machine grpc.ServerStream) error {
	for {
		said, err := next(client, &api.ExecIn{}, inputs)
		if errors.Is(err, io.EOF) {
			<-machine.Context().Done()
			return lostMachine()
		}
		if err != nil {
			return err
		}
		if err := machine.SendMsg(said); err != nil {
			<-machine.Context().Done() // its last word may be on the way
			return lostMachine()
		}
	}
}

// fromMachine hands on what comes of the process, to its end.
func fromMachine(machine, client grpc.ServerStream) error {
	for {
		said, err := next(machine, &api.ExecOut{}, outputs)
		if err != nil {
			return lostMachine()
		}
		out, _ := said.(*api.ExecOut)
		if out != nil {
			if out.Session = ""; proto.Size(out) == 0 {
				continue // a machine that looks whether anybody is there
			}
		}
		if err := client.SendMsg(said); err != nil || out.GetEnd() != nil {
			return err
		}
	}
}

func lostMachine() error {
	return api.StatusOf(unavailable("connection to the node was lost, and the process was ended",
		"run the command again; the task continues"))
}

// Carry is a machine that comes for a process that it was told of.
func (g *Gateway) Carry(stream grpc.BidiStreamingServer[api.ExecOut, api.ExecIn]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s := g.sessions.take(first.GetSession())
	if s == nil || g.o.Machine != nil && g.o.Machine(stream.Context()) != string(s.node) {
		return api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "session", Text: "exec session is no longer open",
		})
	}
	s.came <- stream
	select {
	case <-s.over:
		return nil
	case <-stream.Context().Done():
		return nil
	}
}
