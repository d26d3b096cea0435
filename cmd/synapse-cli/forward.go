package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `port-forward`, which connects local ports on loopback with ports in a task. Each connection
// has a separate process in the task, which ends with the connection.

func (a *app) portForwardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "port-forward JOB[:RANK] [LOCAL:]PORT...",
		Short: "forward local ports to a task",
		Long: "Listens on 127.0.0.1 and forwards each connection to a port on the task's own loopback address,\n" +
			"until Ctrl-C or the end of the job. Other hosts cannot connect. PORT is the port in the task. LOCAL\n" +
			"is the port on this host; 0 picks any free port, and the default is the number of PORT.",
		Example: "  synapse-cli port-forward JOB 8888            # a notebook in rank 0 is at " +
			"http://127.0.0.1:8888\n" +
			"  synapse-cli port-forward JOB:2 6007:6006",
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var pairs []forwarded
			for _, text := range args[1:] {
				pair, err := portsNamed(text)
				if err != nil {
					return err
				}
				pairs = append(pairs, pair)
			}
			return a.portForward(args[0], pairs)
		},
		ValidArgsFunction: a.completeLive,
	}
}

// forwarded is a local port and a port in the task.
type forwarded struct{ here, there uint16 }

// portsNamed parses [LOCAL:]PORT.
func portsNamed(text string) (forwarded, error) {
	here, there, two := strings.Cut(text, ":")
	if !two {
		there = here
	}
	local, err := strconv.ParseUint(here, 10, 16)
	remote, wrong := strconv.ParseUint(there, 10, 16)
	if err != nil || wrong != nil || remote == 0 {
		return forwarded{}, exit.Hint("write PORT or LOCAL:PORT, such as 8888 or 9000:8888", "%q is not a port pair",
			text)
	}
	return forwarded{uint16(local), uint16(remote)}, nil
}

// forwarding holds one task and the connections to it.
type forwarding struct {
	a    *app
	c    *client.Client
	job  string
	rank int32
}

func (a *app) portForward(task string, pairs []forwarded) error {
	// A request for the version proves that connections are possible, before the ports open.
	return a.helping(task, []string{"--version"}, func(ctx context.Context, run *client.ExecSession) error {
		said := &bytes.Buffer{}
		if err := room.Hear(run, &room.Heard{Out: io.Discard, Errs: said}); err != nil {
			return room.NotRun(err)
		}
		job, rank, _ := taskNamed(task)
		return a.with(func(_ context.Context, c *client.Client) error {
			return (&forwarding{a: a, c: c, job: job, rank: rank}).serve(ctx, pairs)
		})
	})
}

// serve listens until the context or the task ends.
func (f *forwarding) serve(ctx context.Context, pairs []forwarded) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	over := make(chan error, len(pairs)+1)
	for _, pair := range pairs {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(pair.here)))
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			cancel()
			return &exit.Failure{Code: exit.Failed, Text: err.Error(), Hint: "use another local port, such as 0:" +
				strconv.Itoa(int(pair.there))}
		}
		defer listener.Close()
		if err := f.a.data("%s forwards to port %d of rank %d", listener.Addr(), pair.there, f.rank); err != nil {
			cancel()
			return err
		}
		all.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					over <- err
					return
				}
				all.Go(func() { f.join(ctx, conn.(*net.TCPConn), pair.there) })
			}
		})
	}
	all.Go(func() { over <- f.watch(ctx) })
	defer cancel() // before waiting for all of them
	select {
	case <-ctx.Done():
		return context.Canceled
	case err := <-over:
		return err
	}
}

// watch returns when the job has ended or is unknown.
func (f *forwarding) watch(ctx context.Context) error {
	job, err := f.c.Job(ctx, f.job)
	if err == nil {
		job, err = f.c.Wait(ctx, job.GetRecord().GetId(), f.a.lost, nil)
	}
	if err != nil {
		return err
	}
	return &exit.Failure{Code: exit.Conflict, Text: "job " + job.GetRecord().GetId() + " has ended: " + job.GetPhase()}
}

// join copies a connection in both directions.
func (f *forwarding) join(ctx context.Context, conn *net.TCPConn, port uint16) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, err := f.c.Execute(ctx, &api.ExecIn{
		Job: f.job, Rank: f.rank, Command: []string{"--dial", strconv.Itoa(int(port))}, Helper: true,
	})
	if err != nil {
		f.tell(ctx, port, err, "")
		return
	}
	go func() {
		if _, err := io.CopyBuffer(struct{ io.Writer }{stdinOf{run.Send}}, struct{ io.Reader }{conn}, make([]byte,
			stdinBytes)); err != nil {
			cancel() // the local client has disconnected
			return
		}
		_ = run.Send(&api.ExecIn{StdinEnds: true})
	}()
	said := &bytes.Buffer{}
	err = room.Hear(run, &room.Heard{Out: conn, Errs: said, Ends: func() { _ = conn.CloseWrite() }})
	f.tell(ctx, port, err, said.String())
}

// tell reports why a connection broke, unless the local side closed it.
func (f *forwarding) tell(ctx context.Context, port uint16, err error, said string) {
	var wrote *net.OpError
	if err == nil || ctx.Err() != nil || errors.As(err, &wrote) {
		return
	}
	text, _ := exit.Words(err)
	f.a.say("%s: connection to port %d: %s", f.a.name, port, strings.TrimSpace(said+text))
}
