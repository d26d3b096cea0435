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

// This file connects exec sessions between a client and a node. The gateway asks the node through its Node actor.
// The agent then opens a separate stream, and the gateway copies between the two streams. No actor handles these
// bytes, and nothing is stored. A slow reader slows the other side through the flow control of the streams.

// comePatience limits the time until the node must open its stream.
const comePatience = 10 * time.Second

// tellAgain is the interval for repeating the request to the node. A node that does not know the new leader yet
// does not answer it. If the node opens two streams, only one is used.
const tellAgain = time.Second

// sessions holds the sessions that wait for their node, by random names.
type sessions struct {
	mu  sync.Mutex
	all map[string]*session
}

// session is one exec session in the gateway.
type session struct {
	node topology.NodeID
	came chan grpc.BidiStreamingServer[api.ExecOut, api.ExecIn] // the node's stream
	over chan struct{}                                          // closed after the end was sent or the client has gone
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

// take returns and removes the session that a node's stream names.
func (s *sessions) take(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[name]
	delete(s.all, name)
	return of
}

// Exec runs an exec session in a task, and copies its streams.
func (g *Gateway) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	q, job, err := g.asked(stream)
	if err != nil {
		return err
	}
	defer g.leave()
	return g.execute(q, job, stream)
}

// asked returns the first request of a stream and its job. The stream counts as open from here on.
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

// execute runs the command in a task of the job.
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

// placeOf returns the task ID and the node of a rank.
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

// summon asks the node for the session, and waits for its stream.
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

// notCome returns the reason why a node opens no stream.
func notCome(node topology.NodeID, m *messages.ExecTask, got any) *messages.Outcome {
	text := "node " + string(node) + " is not reachable"
	if r, ok := got.(*messages.ExecRefused); ok && r.Session == m.Session {
		text = fmt.Sprintf("rank %d: %s", m.Id.Rank, r.Text)
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "job", Text: text, Hint: "use a running task",
	}
}

// carry copies in both directions until the process has ended, or a side has disconnected.
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

// Most messages contain only bytes in one of these fields. They are passed on without decoding.
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

// next returns the next message of a stream: still encoded if it contains only bytes, or else decoded into message.
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

// fromClient passes input to the process. A client that has closed its input still receives output.
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
			<-machine.Context().Done() // the last answer may still arrive
			return lostMachine()
		}
	}
}

// fromMachine passes output to the client, until the end of the process.
func fromMachine(machine, client grpc.ServerStream) error {
	for {
		said, err := next(machine, &api.ExecOut{}, outputs)
		if err != nil {
			return lostMachine()
		}
		out, _ := said.(*api.ExecOut)
		if out != nil {
			if out.Session = ""; proto.Size(out) == 0 {
				continue // an empty message only tests the connection
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

// Carry accepts the stream of a node for a session that was requested.
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
