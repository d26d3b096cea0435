package launcher

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file connects tasks to the prolog and epilog. No task is prepared before the prolog has succeeded. The end of an
// attempt's last task is reported only when the epilog has ended. A device is therefore free only when no program of
// its owner uses it.

// before runs the prolog, unless another task of the attempt has run it.
func (t *task) before(ctx context.Context) error {
	if t.l.o.Around == nil {
		return nil
	}
	return t.l.o.Around.Before(ctx, t.Key.Token.String(), t.variables())
}

// variables returns the job's environment for prolog and epilog, with Synapse's and Slurm's names.
func (t *task) variables() []string {
	var ids, minors []string
	for _, g := range t.Gpus {
		ids, minors = append(ids, g.GetId()), append(minors, strconv.Itoa(int(g.GetMinor())))
	}
	node, _ := os.Hostname()
	uid, gpus, number := strconv.Itoa(int(t.UID)), strings.Join(ids, ","), messages.NumericID(t.Job)
	return []string{
		"SYNAPSE_JOB_ID=" + t.Job, "SYNAPSE_JOB_NAME=" + t.Spec.Called(), "SYNAPSE_JOB_OWNER=" + t.Owner,
		"SYNAPSE_QUEUE=" + t.Spec.GetQueue(), "SYNAPSE_ATTEMPT=" + t.Key.Token.String(), "SYNAPSE_UID=" + uid,
		"SYNAPSE_USER=" + t.Spec.GetUser(), "SYNAPSE_GPUS=" + gpus,
		"SLURM_JOB_ID=" + number, "SLURM_JOBID=" + number, "SLURM_JOB_NAME=" + t.Spec.Called(), "SLURM_JOB_UID=" + uid,
		"SLURM_JOB_USER=" + t.Spec.GetUser(), "SLURM_JOB_PARTITION=" + t.Spec.GetQueue(), "SLURMD_NODENAME=" + node,
		"SLURM_JOB_GPUS=" + strings.Join(minors, ","), "CUDA_VISIBLE_DEVICES=" + gpus,
	}
}

// after reports that a task has gone. The last task of an attempt is reported when the epilog has ended.
func (t *task) after() {
	if t.l.o.Around == nil {
		t.answer()
		return
	}
	t.owing = true
	if !t.l.loaded.Load() {
		return // the launcher does not yet know whether this is the last task
	}
	if t.l.lives(t.Key.Token) {
		t.settled()
		return
	}
	t.l.o.Around.After(t.Key.Token.String(), func() { t.post(t.settled) })
}

// settled reports the end of a task after the epilog has ended.
func (t *task) settled() {
	t.owing = false
	t.answer()
}

// lives reports whether an attempt still has a task that has not gone.
func (l *Launcher) lives(of topology.Token) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, t := range l.tasks { //order: any will do
		if k.Token == of && !t.disk.over.Load() {
			return true
		}
	}
	return false
}

// leave is called when all tasks of the last agent are loaded. It marks the attempts whose epilogs are pending, and
// continues the tasks that wait for their epilog.
func (l *Launcher) leave() {
	l.loaded.Store(true)
	if l.o.Around == nil {
		return
	}
	l.o.Around.Leave(func(attempt string) bool {
		token, err := topology.ParseToken(attempt)
		return err == nil && l.lives(token)
	})
	for _, t := range l.all() {
		t.post(func() {
			if t.owing {
				t.after()
			}
		})
	}
}
