package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/runtime/transfer"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `cp`, which copies a file or folder between a task and this host. synapse-exec runs in the
// task as the task's user, so the image needs no program for this.

func (a *app) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cp JOB[:RANK]:PATH LOCAL | LOCAL JOB[:RANK]:PATH",
		Short: "copy files from or to a running task",
		Long: "Copies a file or folder between this host and a running task. In the task, the command reads and\n" +
			"writes with the permissions of the task's user. A relative path in the task starts at the task's\n" +
			"working directory. If the target is an existing folder, the source is copied into that folder under\n" +
			"its own name. Modes and times are preserved; owners and set-user-id bits are not. A link that points\n" +
			"to a path within the copied folder is copied as a link. Special files, and links that point outside\n" +
			"of the folder, are skipped and reported. If a file was skipped, the exit code is 1.",
		Example: "  synapse-cli cp JOB:checkpoints/last.pt .          # copy a file from rank 0\n" +
			"  synapse-cli cp JOB:3:trace.json trace3.json       # copy a file from rank 3 and rename it\n" +
			"  synapse-cli cp data JOB:inputs                    # copy a folder to rank 0",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			from, to := placeNamed(args[0]), placeNamed(args[1])
			switch {
			case from.task == "" && to.task == "":
				return exit.Hint("use JOB:PATH or JOB:RANK:PATH for one of the paths", "both paths are local")
			case from.task != "" && to.task != "":
				return exit.Hint("copy to this host first", "both paths are in tasks")
			case from.path == "" || to.path == "":
				return exit.Hint("use `JOB:.` for the task's workdir", "a path is empty")
			case from.task != "":
				return a.fetch(from, to.path)
			}
			return a.bring(from.path, to)
		},
	}
}

// place is a path on this host, or in a task.
type place struct{ task, path string }

// placeNamed parses JOB:PATH, JOB:RANK:PATH or a local path. A local path has a / before its first colon, or no
// colon.
func placeNamed(text string) place {
	job, rest, has := scope.Cut(text, ":")
	if !has || strings.ContainsAny(job, `/\`) || runtime.GOOS == "windows" && len(job) == 1 || job == "" {
		return place{path: text}
	}
	if number, in, has := strings.Cut(rest, ":"); has && number != "" && strings.Trim(number, "0123456789") == "" {
		return place{job + ":" + number, in}
	}
	return place{job, rest}
}

// helping runs a subcommand of synapse-exec in a task. Ctrl-C ends it.
func (a *app) helping(task string, command []string, do func(context.Context, *client.ExecSession) error) error {
	job, rank, err := taskNamed(task)
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		run, err := c.Execute(ctx, &api.ExecIn{Job: job, Rank: rank, Command: command, Helper: true})
		if err != nil {
			return room.NotRun(err)
		}
		if err = do(ctx, run); ctx.Err() != nil {
			return context.Canceled
		}
		return err
	})
}

// fetch copies from a task.
func (a *app) fetch(from place, to string) error {
	name := path.Base(from.path)
	if info, err := os.Stat(to); err == nil && info.IsDir() && strings.Trim(name, "./") == "" {
		return exit.Hint("name the file, or give LOCAL a file name",
			"no file name can be derived from %q for the copy in %s", from.path, to)
	}
	return a.helping(from.task, []string{"--pack", from.path}, func(_ context.Context, run *client.ExecSession) error {
		_ = run.Send(&api.ExecIn{StdinEnds: true})
		comes, goes := io.Pipe()
		note, whole := a.leavingOut()
		unpacked := make(chan error, 1)
		go func() {
			err := transfer.Unpack(comes, to, name, note)
			if err == nil {
				_, err = io.Copy(io.Discard, comes) // an archive may continue after its last entry
			}
			comes.CloseWithError(io.ErrClosedPipe)
			unpacked <- err
		}()
		err := room.Hear(run, &room.Heard{Out: goes, Errs: a.stderr})
		goes.Close()
		wrong := <-unpacked
		if f := (*exit.Failure)(nil); errors.As(err, &f) {
			return err // the process has reported why the archive is incomplete
		}
		return whole(wrong)
	})
}

// bring copies to a task.
func (a *app) bring(from string, to place) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return a.helping(to.task, []string{"--unpack", to.path}, func(_ context.Context, run *client.ExecSession) error {
		note, whole := a.leavingOut()
		packed, ended := make(chan error, 1), make(chan error, 1)
		go func() { packed <- sendPacked(run, from, note) }()
		go func() { ended <- room.Hear(run, &room.Heard{Out: io.Discard, Errs: a.stderr}) }()
		select {
		case err := <-ended: // it failed early, or has received everything
			if err != nil {
				return err
			}
			return whole(<-packed)
		case err := <-packed:
			if err != nil {
				return err // this also ends the process in the task
			}
			return whole(<-ended)
		}
	})
}

// sendPacked sends an archive of a file or folder, and then ends the input.
func sendPacked(run *client.ExecSession, from string, note transfer.Skipped) error {
	out := bufio.NewWriterSize(stdinOf{run.Send}, stdinBytes)
	err := transfer.Pack(out, from, note)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = run.Send(&api.ExecIn{StdinEnds: true})
	}
	if errors.Is(err, io.EOF) {
		return nil // the process has ended; its result arrives separately
	}
	return err
}

// stdinOf writes to the input of a process.
type stdinOf struct{ send func(*api.ExecIn) error }

// Write sends the data in small pieces, because the scheduler slows down large requests. Each piece is encoded
// before Write returns, and not kept.
func (s stdinOf) Write(all []byte) (sent int, err error) {
	for piece := range slices.Chunk(all, stdinBytes) {
		if err := s.send(&api.ExecIn{Stdin: piece}); err != nil {
			return sent, err
		}
		sent += len(piece)
	}
	return sent, nil
}

// leavingOut reports entries that are not copied. whole returns the final error of a copy that may have skipped
// entries.
func (a *app) leavingOut() (note transfer.Skipped, whole func(error) error) {
	n := 0
	note = func(name, why string) {
		n++
		a.say("%s: %q skipped: %s", a.name, name, why)
	}
	return note, func(err error) error {
		if err == nil && n > 0 {
			return exit.With(exit.Failed)
		}
		return err
	}
}
