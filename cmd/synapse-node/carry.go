package main

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/server/api"
)

// This file opens the node's stream for a requested exec session, to the scheduler that requested it. The stream
// uses the link's connection. If it breaks, the process is ended.

// carrying returns carry for a link.
func carrying(link asker) func(context.Context, string, func(launcher.Wire) error) error {
	return func(ctx context.Context, session string, do func(launcher.Wire) error) error {
		return carry(ctx, link, session, do)
	}
}

// carry opens the stream of a session and passes it to do, until do returns.
func carry(ctx context.Context, link asker, session string, do func(launcher.Wire) error) error {
	return link.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := api.NewSynapseClient(conn).Carry(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&api.ExecOut{Session: session}); err != nil {
			return err
		}
		first, err := stream.Recv() // other schedulers send no first message
		if err != nil {
			return err
		}
		w := &execStream{stream: stream, first: first}
		_ = do(w) // do has already reported why a process did not start
		_ = stream.CloseSend()
		for w.err() == nil { // when the other side ends, it has received everything
			_, _ = w.Receive()
		}
		return nil
	})
}

// execStream adapts a stream for the launcher. The launcher may still read when the process has ended. gRPC permits
// only one reader, so a second one would block forever.
type execStream struct {
	stream grpc.BidiStreamingClient[api.ExecOut, api.ExecIn]

	reading sync.Mutex
	first   *api.ExecIn // nil after it was received
	ended   error       // result of the stream
}

func (w *execStream) err() error {
	w.reading.Lock()
	defer w.reading.Unlock()
	return w.ended
}

func (w *execStream) Receive() (*launcher.Incoming, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	in := w.first
	if w.first = nil; in == nil && w.ended == nil {
		in, w.ended = w.stream.Recv()
	}
	if w.ended != nil {
		return nil, w.ended
	}
	return &launcher.Incoming{
		Command: in.GetCommand(), Env: in.GetEnv(), Terminal: in.GetTerminal(), Helper: in.GetHelper(), Stdin: in.GetStdin(),
		StdinEnds: in.GetStdinEnds(), Signal: int(in.GetSignal()),
		Rows: uint16(in.GetRows()), Columns: uint16(in.GetColumns()),
	}, nil
}

func (w *execStream) Send(out *launcher.Outgoing) error {
	said := &api.ExecOut{Begun: out.Begun, Stdout: out.Stdout, Stderr: out.Stderr, StdoutEnds: out.StdoutEnds}
	if out.Ended {
		said.End = &api.ExecEnd{Code: int32(out.Code), Text: out.Text}
	}
	return w.stream.Send(said)
}
