package launcher

import (
	"context"
	"errors"
	"time"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file finds a supervisor again after a restart of the agent, and handles one that no longer answers.

// find looks for an earlier supervisor in the background. It attaches to the supervisor again or reads its exit record.
// If the supervisor was killed, the driver ensures that the task is gone too.
func (t *task) find() {
	t.phase = phaseSpawning
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.l.background(func() {
		defer cancel()
		for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
			link, exit, err := t.look(ctx)
			if err == nil {
				t.post(func() { t.onFound(link, exit) })
				return
			}
			t.l.o.Log.Info("Task %v has not been found again yet: %v", t.Key, err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// attachPatience covers the time until a new supervisor listens.
const attachPatience = 2 * time.Second

func (t *task) look(ctx context.Context) (*supervisor.Link, *supervisor.Exit, error) {
	link, err := supervisor.Attach(t.home, attachPatience)
	if err == nil {
		return link, nil, nil
	}
	if !errors.Is(err, supervisor.ErrDead) {
		return nil, nil, err
	}
	exit, err := supervisor.ReadExit(t.home)
	if exit != nil {
		return nil, exit, nil
	}
	lost := &supervisor.Exit{Kind: supervisor.Lost, Detail: "the task's supervisor was killed"}
	if err != nil {
		lost.Detail = err.Error()
	}
	state, wrong := supervisor.ReadState(t.home)
	if err == nil && wrong == nil && state == nil {
		// The supervisor had not begun the command. This happens on a node that cannot run supervisors.
		lost = &supervisor.Exit{
			Kind: supervisor.LaunchFailed, Code: 125, Detail: "the task's supervisor ended before it began the command",
			Fault: fault.Machine,
		}
	}
	if wrong != nil || state == nil {
		state = &supervisor.State{BootID: t.l.o.BootID}
	}
	if err := t.driver.Sweep(ctx, &t.Task, state); err != nil {
		return nil, nil, err
	}
	lost.AtUnixMs = time.Now().UnixMilli()
	if err := t.record(lost); err != nil {
		t.l.o.Log.Info("The exit record of task %v cannot be written: %v", t.Key, err)
	}
	return nil, lost, nil
}

func (t *task) onFound(link *supervisor.Link, exit *supervisor.Exit) {
	t.cancel = nil
	if exit != nil {
		t.gone(exit)
		return
	}
	t.link = link
	t.onKeep()
	t.passStop()
	t.listen(link)
	t.watch()
}
