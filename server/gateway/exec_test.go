package gateway

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests exec sessions in tasks.

// comes opens the node's stream for a requested session, and echoes each input.
func (l *launcher) comes(d *servedGateway, session string) error {
	stream, err := d.SynapseClient.Carry(timely(d.tb))
	if err != nil {
		return err
	}
	if err := stream.Send(&api.ExecOut{Session: session}); err != nil {
		return err
	}
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		out := &api.ExecOut{Stdout: in.Stdin}
		switch {
		case len(in.Command) > 0:
			out = &api.ExecOut{Begun: true, Stdout: []byte(strings.Join(in.Command, " ") + "\n")}
		case in.StdinEnds:
			out = &api.ExecOut{End: &api.ExecEnd{Code: 7}}
		case len(in.Stdin) == 0:
			out = &api.ExecOut{} // empty, to test the connection
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// executing returns a cluster with a running job, whose node opens requested streams.
func executing(t *testing.T, o Options) (*servedGateway, *launcher, string) {
	r := newRoom(t)
	s, memory := r.lead()
	o.Peers, o.Store = r, memory
	o.Leader = func() Leader { return Leader{Here: true, Epoch: 1} }
	d := r.door(s, o)
	machine := r.join("n1", s)
	eventually(t, "the machine is there", func() bool { return d.nodes() == 1 })
	id := d.submit(gpuJob("a", 1, 1))
	eventually(t, "it runs", func() bool { return d.phase(id) == messages.PhaseRunning })
	return d, machine, id
}

func TestExec(t *testing.T) {
	d, machine, id := executing(t, Options{})
	machine.onExec(func(m *messages.ExecTask) { go func() { _ = machine.comes(d, m.Session) }() })
	ctx, cancel := context.WithCancel(timely(t))
	stream, err := d.SynapseClient.Exec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	said := func(in *api.ExecIn, want string) {
		t.Helper()
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		out, err := stream.Recv()
		if err != nil || string(out.Stdout) != want {
			t.Fatalf("%v: %v, %v", in, out, err)
		}
	}
	said(&api.ExecIn{Job: id, Command: []string{"ls", "-l"}}, "ls -l\n")
	if err := stream.Send(&api.ExecIn{Signal: 1}); err != nil { // the node does not answer this
		t.Fatal(err)
	}
	said(&api.ExecIn{Stdin: []byte("word")}, "word")
	large := strings.Repeat("0123456789", 30_000) // more than a frame of HTTP/2
	said(&api.ExecIn{Stdin: []byte(large)}, large)
	said(&api.ExecIn{Stdin: []byte("of a terminal"), Rows: 24}, "of a terminal")
	if err := stream.Send(&api.ExecIn{StdinEnds: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := stream.Recv(); err != nil || out.GetEnd().GetCode() != 7 {
		t.Fatalf("%v, %v", out, err)
	}
	cancel()
	d.nothingOpen()
}

// TestExecIsToldAgain checks that a node that did not answer, because it did not know the new leader, is asked
// again. If it opens two streams, one is used.
func TestExecIsToldAgain(t *testing.T) {
	d, machine, id := executing(t, Options{})
	var told atomic.Int32
	came := make(chan error, 2)
	machine.onExec(func(m *messages.ExecTask) {
		if told.Add(1) == 2 {
			for range 2 {
				go func() { came <- machine.comes(d, m.Session) }()
			}
		}
	})
	ctx, cancel := context.WithCancel(timely(t))
	stream, err := d.SynapseClient.Exec(ctx)
	if err == nil {
		err = stream.Send(&api.ExecIn{Job: id, Command: []string{"ls"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := stream.Recv(); err != nil || string(out.Stdout) != "ls\n" {
		t.Fatalf("%v, %v", out, err)
	}
	refused(t, <-came, messages.Code_CODE_NOT_FOUND, codes.NotFound, "no longer open")
	cancel()
	<-came
	d.nothingOpen()
}

// TestExecRefused checks the refusals: an unknown rank, an invalid command, and a node without a requested session.
func TestExecRefused(t *testing.T) {
	d, machine, id := executing(t, Options{Machine: func(context.Context) string { return "n2" }})
	came := make(chan error, 1)
	machine.onExec(func(m *messages.ExecTask) { go func() { came <- machine.comes(d, m.Session) }() })
	ask := func(q *api.ExecIn) error {
		ctx, cancel := context.WithCancel(timely(t))
		defer cancel()
		stream, err := d.SynapseClient.Exec(ctx)
		if err != nil {
			return err
		}
		_ = stream.Send(q)
		if q.Job == id && q.Rank == 0 && len(q.Command) == 1 {
			return <-came
		}
		_, err = stream.Recv()
		return err
	}
	refused(t, ask(&api.ExecIn{Job: id}), messages.Code_CODE_INVALID, codes.InvalidArgument, "command")
	refused(t, ask(&api.ExecIn{Job: id, Command: []string{"a\x00b", ""}}), messages.Code_CODE_INVALID,
		codes.InvalidArgument, "NUL")
	refused(t, ask(&api.ExecIn{Job: id, Rank: 1, Command: []string{"a"}}), messages.Code_CODE_NOT_FOUND,
		codes.NotFound, "no rank 1")
	// Another node than the requested one cannot join the session.
	refused(t, ask(&api.ExecIn{Job: id, Command: []string{"a"}}), messages.Code_CODE_NOT_FOUND, codes.NotFound,
		"no longer open")
	refused(t, machine.comes(d, "guessed"), messages.Code_CODE_NOT_FOUND, codes.NotFound, "no longer open")
	d.nothingOpen()
}

// TestExecEndsWithItsMachine checks that a lost node ends the session with a reason, and that closing the scheduler
// ends it too.
func TestExecEndsWithItsMachine(t *testing.T) {
	d, machine, id := executing(t, Options{})
	gone := make(chan context.CancelFunc, 1)
	machine.onExec(func(m *messages.ExecTask) {
		go func() {
			ctx, cancel := context.WithCancel(timely(t))
			stream, err := d.SynapseClient.Carry(ctx)
			if err == nil {
				err = stream.Send(&api.ExecOut{Session: m.Session})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Error(err)
			}
			gone <- cancel
		}()
	})
	var stream grpc.BidiStreamingClient[api.ExecIn, api.ExecOut]
	begin := func() context.CancelFunc {
		var err error
		if stream, err = d.SynapseClient.Exec(timely(t)); err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&api.ExecIn{Job: id, Command: []string{"sleep"}}); err != nil {
			t.Fatal(err)
		}
		return <-gone
	}
	begin()()
	_, err := stream.Recv()
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "the process was ended")
	defer begin()()
	d.Gateway.Close()
	_, err = stream.Recv()
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "shutting down")
}
