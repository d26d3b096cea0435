package main

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/server/api"
)

// This file owns how a machine comes for an exec session that it was told of: to the scheduler that waits for it, by
// a stream of its own over the connection of the link. It breaks with that, and then the process is hung up on.

// carrying is carry over a link.
func carrying(link asker) func(context.Context, string, func(launcher.Wire) error) error {
	return func(ctx context.Context, session string, do func(launcher.Wire) error) error {
		return carry(ctx, link, session, do)
	}
}

// carry hands do what a session's stream carries, until do is through.
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
		first, err := stream.Recv() // and no other scheduler has a first word
		if err != nil {
			return err
		}
		w := &execStream{stream: stream, first: first}
		_ = do(w) // why a process was not run has been said there
		_ = stream.CloseSend()
		for w.err() == nil { // What was sent last has arrived when the other side ends.
			_, _ = w.Receive()
		}
		return nil
	})
}

// execStream gives the launcher a stream. It is still being read when the process has ended, and gRPC allows one
// reader: of two, one would wait for ever.
type execStream struct {
	stream grpc.BidiStreamingClient[api.ExecOut, api.ExecIn]

	reading sync.Mutex
	first   *api.ExecIn // until it was received
	ended   error       // once the stream has
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
