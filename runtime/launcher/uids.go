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

// This file tracks the uids from the leader that are in use on this node, by tasks that are not forgotten and by kept
// files. The leader gives none of these uids to another job while the node reports them. The leader may not know them
// after a takeover or a restored backup, so the node checks too. It removes the kept files of the previous job before
// it uses the uid for the next job. It prepares no task while tasks of another job have the same uid.

// ownerFile is a file in the folder of a kept task.
const ownerFile = "owner.json"

// owner identifies the owner of a kept task: its uid, job and principal.
type owner struct {
	UID  uint32 `json:"uid"`
	Job  string `json:"job"`
	Name string `json:"owner,omitempty"`
}

func (t *task) ownership() owner { return owner{t.UID, t.Job, t.Owner} }

// use lists the tasks and kept folders of one uid, all of one job.
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
			l.uses[t.UID].job = before // the remaining files still belong to that job
			l.release(t)
			return fault.OfMachine(fmt.Errorf("remove the kept files of job %s with the uid %d: %w", before, t.UID, err))
		}
		l.keepsNot(name)
	}
	return nil
}

// take notes that a task uses its uid, and returns the kept folders of the previous job with that uid.
func (l *Launcher) take(t *task) (before string, kept []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.useOf(t.UID, t.Job)
	if before = u.job; before != t.Job {
		if u.tasks > 0 {
			return "", nil, fmt.Errorf("user: tasks of job %s on this node have the uid %d, which the scheduler also gave "+
				"to this job; try another node",
				before, t.UID)
		}
		kept = slices.Clone(u.kept)
	}
	u.job, t.claimed = t.Job, true
	u.tasks++
	return before, kept, nil
}

// useOf returns the use of a uid, and creates it for the job if there is none. The caller holds the launcher's lock.
func (l *Launcher) useOf(uid uint32, job string) *use {
	u := l.uses[uid]
	if u == nil {
		u = &use{job: job}
		l.uses[uid] = u
		l.tellUids()
	}
	return u
}

// release ends a task's use of its uid. The caller holds the launcher's lock.
func (l *Launcher) release(t *task) {
	if u := l.uses[t.UID]; u != nil && t.claimed {
		t.claimed = false
		u.tasks--
		l.free(t.UID)
	}
}

// free removes an unused uid. The caller holds the launcher's lock.
func (l *Launcher) free(uid uint32) {
	if u := l.uses[uid]; u.tasks == 0 && len(u.kept) == 0 {
		delete(l.uses, uid)
		l.tellUids()
	}
}

// tellUids sends the uids in use to the Node. The caller holds the launcher's lock, so changes are sent in order.
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

// keepsFor notes the owner of a task's folder that is kept since then. It replaces an earlier entry of that name.
func (l *Launcher) keepsFor(name, owner string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.remove(name)
	l.kept.add(leaving{name: name, owner: owner, since: since})
}

// keepsNot notes that the folder was removed.
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

// loadKept loads the kept folders of earlier agents and their owners.
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
			l.discard(filepath.Join(root, e.Name())) // the next job already uses the uid
			continue
		}
		if of.UID != 0 {
			l.keeps(e.Name(), of)
		}
		l.keepsFor(e.Name(), of.Name, since[e.Name()])
	}
	return nil
}
