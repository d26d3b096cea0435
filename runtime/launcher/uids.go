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

// This file owns under which uids of the leader's anything lies on this machine: tasks that are not forgotten, and
// what is kept of others. The leader gives none of them to another job for as long as the machine reports them. It may
// not know of them (after a takeover, or when a backup was brought back), so this machine sees to it by itself as well:
// what is kept of the last job goes before the next one comes, and beside tasks of another job none is prepared.

// ownerFile is in a kept task's folder.
const ownerFile = "owner.json"

// owner is what a kept task belongs to: a uid, a job and a principal.
type owner struct {
	UID  uint32 `json:"uid"`
	Job  string `json:"job"`
	Name string `json:"owner,omitempty"`
}

func (t *task) ownership() owner { return owner{t.UID, t.Job, t.Owner} }

// use is what lies under one uid, all of it of one job.
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
			l.uses[t.UID].job = before // what is left still belongs to that one
			l.release(t)
			return fault.OfMachine(fmt.Errorf("what is kept of job %s under the uid %d: %w", before, t.UID, err))
		}
		l.keepsNot(name)
	}
	return nil
}

// take notes that a task is under its uid, and answers what is kept there of the job before.
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

// useOf is what lies under a uid; what is new there belongs to that job. The launcher's lock is held.
func (l *Launcher) useOf(uid uint32, job string) *use {
	u := l.uses[uid]
	if u == nil {
		u = &use{job: job}
		l.uses[uid] = u
		l.tellUids()
	}
	return u
}

// release lets go of a task's uid. The launcher's lock is held.
func (l *Launcher) release(t *task) {
	if u := l.uses[t.UID]; u != nil && t.claimed {
		t.claimed = false
		u.tasks--
		l.free(t.UID)
	}
}

// free drops a uid under which nothing lies any more. The launcher's lock is held.
func (l *Launcher) free(uid uint32) {
	if u := l.uses[uid]; u.tasks == 0 && len(u.kept) == 0 {
		delete(l.uses, uid)
		l.tellUids()
	}
}

// tellUids tells the Node what has changed. The launcher's lock is held, so that it is told in order.
func (l *Launcher) tellUids() {
	if l.node != nil {
		l.send(l.node, &messages.UidsInUse{Uids: l.inUse()})
	}
}

func (l *Launcher) inUse() []uint32 { return slices.Sorted(maps.Keys(l.uses)) }

// writeOwner notes whose a task is that will be kept.
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

// keeps notes that a task's folder is kept, for as long as that is there.
func (l *Launcher) keeps(name string, of owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.useOf(of.UID, of.Job)
	u.kept = append(u.kept, name)
}

// keepsFor notes whose a task's folder is that is kept since then, in place of an earlier one of that name.
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

// loadKept takes up what earlier agents kept, and whose it is.
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
			l.o.Log.Info("Whose %s is cannot be read: it is not kept", filepath.Join(root, e.Name()))
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
