package main

import (
	"context"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file owns how a machine comes for a further process that it was told of: to the scheduler that waits for it, by
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
		_ = do(&wire{stream: stream, first: first}) // why a process was not run has been said there
		_ = stream.CloseSend()
		_, _ = stream.Recv() // What was sent last has arrived when the other side ends.
		return nil
	})
}

// wire is a stream as the launcher has it.
type wire struct {
	stream grpc.BidiStreamingClient[api.ExecOut, api.ExecIn]
	first  *api.ExecIn // until it was received
}

func (w *wire) Receive() (*launcher.Incoming, error) {
	in := w.first
	if w.first = nil; in == nil {
		var err error
		if in, err = w.stream.Recv(); err != nil {
			return nil, err
		}
	}
	return &launcher.Incoming{
		Command: in.GetCommand(), Env: in.GetEnv(), Terminal: in.GetTerminal(), Helper: in.GetHelper(), Stdin: in.GetStdin(),
		StdinEnds: in.GetStdinEnds(), Signal: int(in.GetSignal()),
		Rows: uint16(in.GetRows()), Columns: uint16(in.GetColumns()),
	}, nil
}

func (w *wire) Send(out *launcher.Outgoing) error {
	said := &api.ExecOut{Begun: out.Begun, Stdout: out.Stdout, Stderr: out.Stderr, StdoutEnds: out.StdoutEnds}
	if out.Ended {
		said.End = &api.ExecEnd{Code: int32(out.Code), Text: out.Text}
	}
	return w.stream.Send(said)
}
