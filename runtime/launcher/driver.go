// Package launcher runs a machine's tasks. To the actors it is the port that speaks the driver contract
// (messages/launcher.proto). Below it stand the drivers, which say how a task is isolated (container, oci, upstream,
// process), and the supervisors, a small process for each task. It owns the tasks' directories and the messages to and
// from their supervisors. A task that it calls gone is gone: a supervisor saw its end, or the launcher checked itself.
package launcher

import (
	"context"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a driver is. A driver keeps nothing in memory that is not in the task's directory, because the
// agent may restart at any time.

// Driver says how tasks are run. Every method may be called again for the same
// task, also by a later agent, and finds its own work done.
type Driver interface {
	// Name is written beside each task, so that it is cleaned up by the driver
	// that made it.
	Name() string
	// Prepare gets image, rootfs and scratch ready, however long it takes. What it refuses names the field of the job and
	// the way out, and fault.Of says whose fault that is. When ctx ends it leaves no process behind.
	Prepare(ctx context.Context, t *Task) error
	// Scratch is the path at which the task itself will see Task.Scratch.
	Scratch(t *Task) string
	// Command is what a supervisor is to run; env is complete except for what the image or the user adds. The launcher
	// fills in the stop rules, the logs and the boot. Errors carry their fault, as those of Prepare do.
	Command(t *Task, start *messages.StartTask, env []string) (*supervisor.Spec, error)
	// Sweep ends what a supervisor that was killed left of the task. It returns
	// nil only when nothing is left: that is the evidence.
	Sweep(ctx context.Context, t *Task, state *supervisor.State) error
	// Stats returns what the task uses now.
	Stats(t *Task, state *supervisor.State) (*messages.TaskStats, error)
	// Cleanup removes all that Prepare and Command made outside of Task.Scratch. The task is gone by then.
	Cleanup(t *Task) error
}

// Task is one container, as drivers see it.
type Task struct {
	Key   topology.TaskKey
	Job   string
	Owner string // of the job; empty: the leader does not name one
	// OwnerProven: the cluster knows the owner by a certificate or token, so the name counts as an account's.
	OwnerProven bool
	Spec        *messages.JobSpec
	UID         uint32 // that the leader gave to a job without a user; 0: none
	Grant       *messages.Grant
	Gpus        []*messages.Gpu // the granted ones, as the machine announced them
	// Dir is the driver's own folder, which only the agent can enter. Scratch belongs to the task: it is its default
	// workdir, and is kept with the logs for a while.
	Dir     string
	Scratch string
	Helper  string // the program that the task is to have at Helper(Scratch); empty: none

	homeless string // that it cannot write to its $HOME; empty: it can, or nobody looked
}

// ParseKey reads the key in the name of a task's directory.
func ParseKey(text string) (topology.TaskKey, bool) {
	token, rank, ok := strings.Cut(text, "-")
	t, err := topology.ParseToken(token)
	r, wrong := strconv.ParseInt(rank, 10, 32)
	k := topology.TaskKey{Token: t, Rank: topology.Rank(r)}
	return k, ok && err == nil && wrong == nil && k.String() == text
}
