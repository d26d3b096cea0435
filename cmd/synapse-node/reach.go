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

// This file owns how a task's exec session in another one goes to the scheduler: by a stream of its own over the
// connection of the link. It breaks with that, and then the process over there is hung up on.

// reaching is runRemote over a link.
func reaching(link asker) func(context.Context, launcher.ExecRequest, func(launcher.RemoteExec) error) error {
	return func(ctx context.Context, request launcher.ExecRequest, do func(launcher.RemoteExec) error) error {
		return runRemote(ctx, link, request, do)
	}
}

// runRemote hands do the exec session in the other task, once it runs. Whether it may run is said by the scheduler that
// leads; one that does not is asked in vain.
func runRemote(ctx context.Context, link asker, r launcher.ExecRequest, do func(launcher.RemoteExec) error) error {
	var over error
	err := link.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := api.NewSynapseClient(conn).Reach(ctx)
		if err != nil {
			return err
		}
		_ = stream.Send(&api.ExecIn{ // a stream that was refused says why when it is listened to
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

// remoteExec is a stream as the launcher has it.
type remoteExec struct {
	stream grpc.BidiStreamingClient[api.ExecIn, api.ExecOut]
	first  *api.ExecOut // until it was received
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
