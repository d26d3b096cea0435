package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns which uids from the leader are in use on this machine: by tasks that are not forgotten, and by what is
// kept of others. The leader gives none of them to another job as long as the machine reports them. The leader may not
// know of them (after a takeover, or after a backup was restored), so this machine takes care as well: what is kept of
// the last job is removed before the next one comes, and no task is prepared beside tasks of another job.

// ownerFile is in a kept task's folder.
const ownerFile = "owner.json"

// owner says whose a kept task is: its uid, job and principal.
type owner struct {
	UID  uint32 `json:"uid"`
	Job  string `json:"job"`
	Name string `json:"owner,omitempty"`
}

func (t *task) ownership() owner { return owner{t.UID, t.Job, t.Owner} }

// use lists the tasks and files of one uid, all of one job.
type use struct {
	job   string
	tasks int
	kept  []string // folders of keptDir
}

// claim takes a task's uid for its job.
func (l *Launcher) claim(t *task) error {
	if t.UID == 0 {
		return nil
	}
	l.pruning.Lock()
	defer l.pruning.Unlock()
	before, kept, err := l.take(t)
	if err != nil {
		return err
	}
	for _, name := range kept {
		if err := tree.Remove(filepath.Join(l.o.Dir, keptDir, name)); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.uses[t.UID].job = before // what is left still belongs to that job
			l.release(t)
			return fault.OfMachine(fmt.Errorf("what is kept of job %s under the uid %d: %w", before, t.UID, err))
		}
		l.keepsNot(name)
	}
	return nil
}

// take notes that a task uses its uid, and returns what is kept there of the job before.
func (l *Launcher) take(t *task) (before string, kept []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.useOf(t.UID, t.Job)
	if before = u.job; before != t.Job {
		if u.tasks > 0 {
			return "", nil, fmt.Errorf("user: tasks of job %s are here under the uid %d, which the scheduler gave to this "+
				"job too",
				before, t.UID)
		}
		kept = slices.Clone(u.kept)
	}
	u.job, t.claimed = t.Job, true
	u.tasks++
	return before, kept, nil
}

// useOf is the use of a uid, a new one for that job if there is none. The launcher's lock is held.
func (l *Launcher) useOf(uid uint32, job string) *use {
	u := l.uses[uid]
	if u == nil {
		u = &use{job: job}
		l.uses[uid] = u
		l.tellUids()
	}
	return u
}

// release ends a task's use of its uid. The launcher's lock is held.
func (l *Launcher) release(t *task) {
	if u := l.uses[t.UID]; u != nil && t.claimed {
		t.claimed = false
		u.tasks--
		l.free(t.UID)
	}
}

// free drops a uid that nothing uses any more. The launcher's lock is held.
func (l *Launcher) free(uid uint32) {
	if u := l.uses[uid]; u.tasks == 0 && len(u.kept) == 0 {
		delete(l.uses, uid)
		l.tellUids()
	}
}

// tellUids tells the Node what has changed. The launcher's lock is held, so that changes are sent in order.
func (l *Launcher) tellUids() {
	if l.node != nil {
		l.send(l.node, &messages.UidsInUse{Uids: l.inUse()})
	}
}

func (l *Launcher) inUse() []uint32 { return slices.Sorted(maps.Keys(l.uses)) }

// writeOwner records the owner of a task that will be kept.
func (t *task) writeOwner() error {
	if t.UID == 0 && t.Owner == "" {
		return nil
	}
	text, err := json.Marshal(t.ownership())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.home, ownerFile), text, 0o600)
}

// keeps notes that a task's folder is kept.
func (l *Launcher) keeps(name string, of owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.useOf(of.UID, of.Job)
	u.kept = append(u.kept, name)
}

// keepsFor notes the owner of a task's folder that is kept since then, in place of an earlier one of that name.
func (l *Launcher) keepsFor(name, owner string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.remove(name)
	l.kept.add(leaving{name: name, owner: owner, since: since})
}

// keepsNot notes that the folder has gone.
func (l *Launcher) keepsNot(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.remove(name)
	for uid, u := range l.uses {
		if i := slices.Index(u.kept, name); i >= 0 {
			u.kept = slices.Delete(u.kept, i, i+1)
			l.free(uid)
			return
		}
	}
}

// loadKept loads what earlier agents kept, and its owners.
func (l *Launcher) loadKept() error {
	root := filepath.Join(l.o.Dir, keptDir)
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("launcher: %w", err)
	}
	since := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			since[e.Name()] = info.ModTime()
		}
	}
	slices.SortStableFunc(entries, func(a, b os.DirEntry) int { return since[a.Name()].Compare(since[b.Name()]) })
	for _, e := range entries {
		var of owner
		text, err := os.ReadFile(filepath.Join(root, e.Name(), ownerFile))
		switch {
		case errors.Is(err, os.ErrNotExist): // of a job without a uid
		case err != nil || json.Unmarshal(text, &of) != nil:
			l.o.Log.Info("The owner of %s cannot be read, and the directory is not "+
				"kept", filepath.Join(root, e.Name()))
			l.discard(filepath.Join(root, e.Name()))
			continue
		}
		if u := l.uses[of.UID]; of.UID != 0 && u != nil && u.job != of.Job {
			l.discard(filepath.Join(root, e.Name())) // the next job is here already
			continue
		}
		if of.UID != 0 {
			l.keeps(e.Name(), of)
		}
		l.keepsFor(e.Name(), of.Name, since[e.Name()])
	}
	return nil
}
