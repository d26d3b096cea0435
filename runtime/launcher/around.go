package launcher

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns prolog and epilog as tasks meet them: no task is prepared before the prolog has ended well, and that
// the last task of an attempt has gone is told only when the epilog has ended. So a device is free when nothing of the
// owner's programs touches it any more.

// before runs the prolog, if no other task of the attempt has.
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

// after tells that a task has gone; of the last task of its attempt once the epilog has ended.
func (t *task) after() {
	if t.l.o.Around == nil {
		t.answer()
		return
	}
	t.owing = true
	if !t.l.loaded.Load() {
		return // whether it is the last nobody knows yet
	}
	if t.l.lives(t.Key.Token) {
		t.settled()
		return
	}
	t.l.o.Around.After(t.Key.Token.String(), func() { t.post(t.settled) })
}

// settled tells of the end that waited for the epilog.
func (t *task) settled() {
	t.owing = false
	t.answer()
}

// lives reports whether a task of an attempt has not gone.
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

// leave goes on with what the last agent's tasks owe, once all of them are known.
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
