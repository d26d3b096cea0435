package slurmcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file owns `salloc`: a job that has its room, and a command here in whose environment srun runs steps in that
// job. They end together, whichever of them ends first; a scheduler or an agent that goes away for less than a minute
// ends neither.

// heldPause is how long nothing is asked where a lifeline could not be made.
const heldPause = 500 * time.Millisecond

func (a *CLI) salloc(words []string) error {
	b, command, err := slurm.ParseRoom(words, a.Lookup)
	if err != nil {
		return err
	}
	a.warn(b)
	name, given := b.KillCommand()
	kill, known := killSignals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	if given && !known {
		return &slurm.Refusal{Option: "--kill-command", Text: name + ": unknown signal"}
	}
	if len(command) == 0 {
		shell, _ := a.Lookup("SHELL")
		command = []string{cmp.Or(shell, "/bin/sh")}
	}
	if !given && a.Terminal {
		kill = syscall.SIGHUP // as there: a shell at a terminal is hung up on
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		manner := "return"
		if b.NoShell() {
			manner = "stay"
		}
		id, err := a.room(ctx, c, b, manner)
		if err != nil {
			return err
		}
		a.Say("salloc: Granted job allocation %s", messages.NumericID(id))
		if b.NoShell() {
			return nil
		}
		return a.within(ctx, c, id, command, kill)
	})
}

// killSignals are those that --kill-command may name.
var killSignals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "15": syscall.SIGTERM, "KILL": syscall.SIGKILL,
	"9": syscall.SIGKILL, "INT": syscall.SIGINT, "2": syscall.SIGINT, "HUP": syscall.SIGHUP, "1": syscall.SIGHUP}

// within runs a command here, with what a step of the job would find of Slurm's words.
func (a *CLI) within(ctx context.Context, c *client.Client, id string, command []string, kill syscall.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	number := messages.NumericID(id)
	kept := &keeping{id: id, over: make(chan struct{})}
	if err := kept.hold(ctx, c); err != nil {
		a.Abandon(c, id, "its allocation could not be held")
		return room.NotRun(err)
	}
	env, err := toldBy(ctx, c, id, "env")
	if err != nil {
		a.Abandon(c, id, "its environment could not be read")
		return err
	}
	revoked := make(chan os.Signal, 1)
	go func() {
		if kept.watch(ctx, c) {
			a.Say("salloc: Job allocation %s has been revoked.", number)
			if kill != 0 {
				revoked <- kill
			}
		}
	}()
	run := exec.Command(command[0], command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = a.Stdin, a.Stdout, a.Stderr
	run.Env = slices.Concat(slices.DeleteFunc(os.Environ(), ofSlurm), ofAllocation(env))
	ended := a.alongside(run, revoked)
	if f := (*exit.Failure)(nil); ended != nil && !errors.As(ended, &f) {
		ended = &exit.Failure{Code: exit.NotRun, Text: ended.Error()}
	}
	code := 0
	if ended != nil {
		code = exit.Code(ended)
	}
	a.Say("salloc: Relinquishing job allocation %s", number)
	kept.end(code)
	return a.Concluded(ctx, c, id, ended)
}

// ofSlurm reports whether a variable is of a job.
func ofSlurm(entry string) bool { return strings.HasPrefix(entry, "SLURM_") }

// ofProcess are variables of Slurm's that say which process, node or step one is.
var ofProcess = []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
	"SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TOPOLOGY_ADDR",
	"SLURM_TOPOLOGY_ADDR_PATTERN", "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE", "SLURM_RESTART_COUNT"}

// ofAllocation are the lines of an environment that are true of the whole job.
func ofAllocation(env string) (set []string) {
	for line := range strings.Lines(env) {
		name, _, is := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if is && ofSlurm(name) && !slices.Contains(ofProcess, name) {
			set = append(set, strings.TrimSuffix(line, "\n"))
		}
	}
	return set
}

// keeping is the lifeline of an allocation, made again where it breaks.
type keeping struct {
	id   string
	over chan struct{} // closed when the keeper has its code, or the job has ended
	lock sync.Mutex
	line *client.ExecSession
	code *int // of the command; nil: it runs
}

// hold makes a lifeline. One that comes when the command has ended hands on its code at once.
func (k *keeping) hold(ctx context.Context, c *client.Client) error {
	line, err := room.Held(ctx, c, k.id, 0)
	if err != nil {
		return err
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.line = line; k.code != nil {
		room.LetGo(line, *k.code)
	}
	return nil
}

func (k *keeping) let() bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.code != nil
}

// watch returns when the keeper has its code, or the job has ended or can no longer be held; it reports whether the
// command still ran then.
func (k *keeping) watch(ctx context.Context, c *client.Client) (revoked bool) {
	defer close(k.over)
	for {
		if err := room.Hear(k.line, &room.Heard{Out: io.Discard, Errs: io.Discard}); err == nil && k.let() {
			return false
		}
		for limit := time.Now().Add(room.Patience); ; {
			j, err := c.Job(ctx, k.id)
			if ctx.Err() != nil || err == nil && j.GetPhase() != messages.PhaseRunning || time.Now().After(limit) {
				return ctx.Err() == nil && !k.let()
			}
			if err == nil && k.hold(ctx, c) == nil {
				break
			}
			select {
			case <-time.After(heldPause):
			case <-ctx.Done():
			}
		}
	}
}

// end hands the keeper the code of the command, over another lifeline where this one breaks.
func (k *keeping) end(code int) {
	k.lock.Lock()
	k.code = &code
	room.LetGo(k.line, code)
	k.lock.Unlock()
	select {
	case <-k.over:
	case <-time.After(room.Patience):
	}
}
