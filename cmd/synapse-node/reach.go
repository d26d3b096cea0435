package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/server/api"
)

// This file opens an exec session from a task in another task, through a separate stream to the scheduler over the
// link's connection. If the stream breaks, the remote process is ended.

// reaching returns runRemote for a link.
func reaching(link asker) func(context.Context, launcher.ExecRequest, func(launcher.RemoteExec) error) error {
	return func(ctx context.Context, request launcher.ExecRequest, do func(launcher.RemoteExec) error) error {
		return runRemote(ctx, link, request, do)
	}
}

// runRemote opens the exec session and passes it to do after its start. The leading scheduler decides whether it is
// permitted. A standby refuses the request.
func runRemote(ctx context.Context, link asker, r launcher.ExecRequest, do func(launcher.RemoteExec) error) error {
	var over error
	err := link.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := api.NewSynapseClient(conn).Reach(ctx)
		if err != nil {
			return err
		}
		_ = stream.Send(&api.ExecIn{ // a refused stream reports its error on receive
			Job: r.Job, Attempt: r.Attempt, Rank: r.Rank, Host: r.Host, Command: r.Command,
		})
		first, err := stream.Recv()
		if status.Code(err) == codes.Unavailable {
			return err
		}
		if err != nil {
			over = errors.New(status.Convert(err).Message())
			return nil
		}
		over = do(&remoteExec{stream: stream, first: first})
		return nil
	})
	return errors.Join(err, over)
}

// remoteExec adapts a stream for the launcher.
type remoteExec struct {
	stream grpc.BidiStreamingClient[api.ExecIn, api.ExecOut]
	first  *api.ExecOut // nil after it was received
}

func (f *remoteExec) Send(in *launcher.Incoming) error {
	return f.stream.Send(&api.ExecIn{Stdin: in.Stdin, StdinEnds: in.StdinEnds, Signal: int32(in.Signal)})
}

func (f *remoteExec) Receive() (*launcher.Outgoing, error) {
	out := f.first
	if f.first = nil; out == nil {
		var err error
		if out, err = f.stream.Recv(); err != nil {
			return nil, errors.New(status.Convert(err).Message())
		}
	}
	return &launcher.Outgoing{
		Begun: out.GetBegun(), Stdout: out.GetStdout(), Stderr: out.GetStderr(), StdoutEnds: out.GetStdoutEnds(),
		Ended: out.GetEnd() != nil, Code: int(out.GetEnd().GetCode()), Text: out.GetEnd().GetText(),
	}, nil
}
