// Package launcher runs the tasks of a node. Actors use it through a port that implements the driver contract
// (messages/launcher.proto). The launcher uses drivers and supervisors. A driver isolates tasks (container, oci,
// upstream, process). A supervisor is a small process, one per task. The launcher owns the directories of the tasks and
// the messages to and from their supervisors. It reports a task as gone only if a supervisor saw the end or the
// launcher checked.
package launcher

import (
	"context"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// This file defines the driver interface. A driver keeps all its state in the task's directory, because the agent may
// restart at any time.

// Driver prepares, runs and removes tasks. Every method is idempotent for a task, also across agents.
type Driver interface {
	// Name is recorded in the task's directory. The driver of that name later removes the task.
	Name() string
	// Prepare makes the image, the rootfs and the scratch directory ready, and may take any time. If Prepare
	// refuses, its error names the job's field and the fix, and fault.Of returns the party at fault. When ctx ends,
	// Prepare leaves no process behind.
	Prepare(ctx context.Context, t *Task) error
	// Scratch returns the path of Task.Scratch inside the task.
	Scratch(t *Task) string
	// Command returns the specification for a supervisor. env is complete except for additions by the image or the
	// user. The launcher adds the stop rules, the logs and the boot ID. Errors carry their fault, like those of
	// Prepare.
	Command(t *Task, start *messages.StartTask, env []string) (*supervisor.Spec, error)
	// Sweep ends all that a killed supervisor left of the task. It returns nil only if nothing is left, which is
	// the exit confirmation.
	Sweep(ctx context.Context, t *Task, state *supervisor.State) error
	// Stats returns the resources that the task uses now.
	Stats(t *Task, state *supervisor.State) (*messages.TaskStats, error)
	// Cleanup removes all that Prepare and Command made outside of Task.Scratch. The caller ensures that the task
	// is gone.
	Cleanup(t *Task) error
}

// Inheriter is a driver whose tasks can take over what an ended task has written.
type Inheriter interface {
	// Inherit moves the writable layer of an ended task to a new one that is not prepared yet. It can be repeated.
	Inherit(from, to *Task) error
}

// Task describes one container to a driver.
type Task struct {
	Key   topology.TaskKey
	Job   string
	Owner string // of the job; empty if the leader names none
	// OwnerProven reports that a certificate or token proves the owner. The name then counts as an account's name.
	OwnerProven bool
	Spec        *messages.JobSpec
	UID         uint32 // assigned by the leader to a job without a user; 0: none
	Grant       *messages.Grant
	Gpus        []*messages.Gpu // the granted GPUs, as the node announced them
	// Dir is the driver's own folder, which only the agent can enter. Scratch belongs to the task and is its
	// default workdir. Scratch is kept with the logs for a while.
	Dir     string
	Scratch string
	Helper  string // the program to show to the task at Helper(Scratch); empty: none

	homeless string // the notice that the task cannot write to its $HOME; empty: it can, or this was not checked
}

// ParseKey parses the key from the name of a task's directory.
func ParseKey(text string) (topology.TaskKey, bool) {
	token, rank, ok := strings.Cut(text, "-")
	t, err := topology.ParseToken(token)
	r, wrong := strconv.ParseInt(rank, 10, 32)
	k := topology.TaskKey{Token: t, Rank: topology.Rank(r)}
	return k, ok && err == nil && wrong == nil && k.String() == text
}
