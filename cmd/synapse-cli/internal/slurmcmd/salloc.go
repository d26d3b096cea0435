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
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/messages"
)

// This file implements `salloc`: a job that holds resources, and a local command in whose environment srun runs
// steps in that job. If one of them ends, the other ends too. Both survive a scheduler or an agent that is
// unreachable for less than a minute.

// heldPause is the pause before another lifeline is tried.
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
		kill = syscall.SIGHUP // as in Slurm: a shell at a terminal gets SIGHUP
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

// killSignals maps the signals that --kill-command accepts.
var killSignals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "15": syscall.SIGTERM, "KILL": syscall.SIGKILL,
	"9": syscall.SIGKILL, "INT": syscall.SIGINT, "2": syscall.SIGINT, "HUP": syscall.SIGHUP, "1": syscall.SIGHUP}

// within runs a local command with the SLURM_ variables of a step in the job.
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

// ofSlurm reports whether an environment entry is a SLURM_ variable.
func ofSlurm(entry string) bool { return strings.HasPrefix(entry, "SLURM_") }

// ofProcess lists Slurm's variables about a process, node or step.
var ofProcess = []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
	"SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TOPOLOGY_ADDR",
	"SLURM_TOPOLOGY_ADDR_PATTERN", "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE", "SLURM_RESTART_COUNT"}

// ofAllocation returns the lines of an environment that apply to the complete job.
func ofAllocation(env string) (set []string) {
	for line := range strings.Lines(env) {
		name, _, is := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if is && ofSlurm(name) && !slices.Contains(ofProcess, name) {
			set = append(set, strings.TrimSuffix(line, "\n"))
		}
		if name == "SLURM_JOB_ID" { // only programs that run beside an srun have the second name
			set = append(set, "SLURM_JOBID"+strings.TrimPrefix(strings.TrimSuffix(line, "\n"), name))
		}
	}
	return set
}

// keeping holds the lifeline of an allocation, and replaces a broken one.
type keeping struct {
	id   string
	over chan struct{} // closed when the keeper has its code, or the job has ended
	lock sync.Mutex
	line *client.ExecSession
	code *int // of the command; nil: it is running
}

// hold creates a lifeline. If the command has already ended, hold sends its code immediately.
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

// watch returns when the keeper has its code, the job has ended, or no lifeline is possible. It reports whether the
// command was still running.
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

// end sends the code of the command to the keeper, through a new lifeline if the current one breaks.
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
