package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `exec`, which runs a command in a running task with this terminal. Output and input are
// passed on, and the exit code is that of the command.

const stdinBytes = 64 << 10 // bytes of stdin per message

// execOptions holds the flags.
type execOptions struct{ stdin, terminal bool }

func (a *app) execCommand() *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "exec JOB[:RANK] [-i] [-t] -- COMMAND...",
		Short: "run a command in a running task",
		Long: "Runs a command in a running task, as an exec session. The session has the task's container, user,\n" +
			"limits, devices and environment. The resources of the session count towards the task's limits. The\n" +
			"session ends with the task, and does not change the task's result. If -i is set, the session reads\n" +
			"this command's standard input to the end. If this command has no terminal, -t is ignored. The\n" +
			"default rank is 0.\n\n" +
			"The exit code is that of the session, or 128 + N if signal N ended it. The codes 125 to 127 mean\n" +
			"that the session did not start. The code 8 means that the connection was lost.",
		Example: "  synapse-cli exec JOB -- env\n  synapse-cli exec JOB:3 -it -- sh          # open a shell in " +
			"rank 3\n" +
			"  echo hello | synapse-cli exec JOB -i -- cat",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at := c.ArgsLenAtDash()
			switch {
			case at < 0 && len(args) > 1, at > 1:
				return exit.Hint("write the command after --, as in `exec JOB -- ps`", "only one JOB may precede --")
			case at < 1 || len(args) < 2:
				return exit.Hint("write the command after --, as in `exec JOB -- ps`", "COMMAND is missing")
			}
			return a.exec(args[0], args[1:], o)
		},
		ValidArgsFunction: a.completeLive,
	}
	c.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "forward standard input to the session")
	c.Flags().BoolVarP(&o.terminal, "tty", "t", false, "allocate a terminal that follows the size of the local one")
	return c
}

// taskNamed parses JOB[:RANK].
func taskNamed(text string) (job string, rank int32, err error) {
	job, number, has := scope.Cut(text, ":")
	if !has {
		return job, 0, nil
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 || n >= messages.MaxGangTasks {
		return "", 0, exit.Usage("%q: the rank after the colon must be a number from 0", text)
	}
	return job, int32(n), nil
}

func (a *app) exec(task string, command []string, o execOptions) error {
	job, rank, err := taskNamed(task)
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		return a.converse(ctx, c, &api.ExecIn{Job: job, Rank: rank, Command: command}, o.stdin, o.terminal)
	})
}

// converse runs a process in a task with the terminal, the input and the signals of this program.
func (a *app) converse(ctx context.Context, c *client.Client, first *api.ExecIn, stdin, terminal bool) error {
	here, is := a.stdin.(*os.File)
	is = is && term.IsTerminal(int(here.Fd()))
	if terminal && stdin && !is { // as in kubectl: a shell on a terminal would not see the end of this input
		a.say("%s: no terminal is allocated: standard input is not a terminal", a.name)
		terminal = false
	}
	typed := terminal && stdin
	if first.Terminal = terminal; terminal {
		first.Env = []string{"TERM=xterm"}
		if kind, ok := a.lookup("TERM"); ok && kind != "" {
			first.Env = []string{"TERM=" + kind}
		}
		first.Rows, first.Columns = a.windowSize()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, err := c.Execute(ctx, first)
	if err != nil {
		return room.NotRun(err)
	}
	if typed {
		before, err := term.MakeRaw(int(here.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(here.Fd()), before)
	}
	a.attend(ctx, run, stdin, terminal)
	return room.Hear(run, &room.Heard{Out: a.stdout, Errs: a.stderr})
}

// attend passes on input, signals and the size of the terminal.
func (a *app) attend(ctx context.Context, run *client.ExecSession, stdin, terminal bool) {
	if stdin {
		go a.handInput(run)
	} else {
		_ = run.Send(&api.ExecIn{StdinEnds: true})
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(resizes(), os.Interrupt, syscall.SIGTERM)...)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if number, ok := s.(syscall.Signal); ok && (s == os.Interrupt || s == syscall.SIGTERM) {
					_ = run.Send(&api.ExecIn{Signal: int32(number)})
				} else if rows, columns := a.windowSize(); terminal && rows > 0 {
					_ = run.Send(&api.ExecIn{Rows: rows, Columns: columns})
				}
			}
		}
	}()
}

// handInput sends this command's input until it ends. The receiver of the stream reports a broken stream.
func (a *app) handInput(run *client.ExecSession) {
	for {
		buffer := make([]byte, stdinBytes)
		n, err := a.stdin.Read(buffer)
		if n > 0 && run.Send(&api.ExecIn{Stdin: buffer[:n]}) != nil {
			return
		}
		if err != nil {
			_ = run.Send(&api.ExecIn{StdinEnds: true})
			return
		}
	}
}

// windowSize returns the size of this command's terminal, or 0 if there is none.
func (a *app) windowSize() (rows, columns uint32) {
	for _, stream := range []any{a.stdout, a.stdin} {
		if file, is := stream.(*os.File); is {
			if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
				return uint32(height), uint32(width)
			}
		}
	}
	return 0, 0
}
