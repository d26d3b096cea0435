// Package disk keeps one machine's ledger record: a whole version of it at any
// time, on disk before it is told.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// Disk is the ledger disk of a Node, on a file. What it is asked to do it does in
// that order, one thing after the other, beside the actors.
type Disk struct {
	system *actor.ActorSystem
	path   string

	mu   sync.Mutex
	todo []func()
	busy bool
	work sync.WaitGroup
}

// keptAside is how many quarantined records are kept: enough to see what
// happened, and no more than a machine that fails again and again can hold.
const keptAside = 8

// New keeps the record at path, whose directory must exist.
func New(system *actor.ActorSystem, path string) *Disk { return &Disk{system: system, path: path} }

// Load answers DiskLoaded.
func (d *Disk) Load(to *actor.PID) {
	d.post(func() {
		data, err := os.ReadFile(d.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.system.Root.Send(to, actors.DiskLoaded{})
		case err != nil:
			d.system.Root.Send(to, actors.DiskLoaded{Err: fmt.Sprintf("read the ledger: %v", err)})
		default:
			d.system.Root.Send(to, actors.DiskLoaded{Data: data})
		}
	})
}

// Save answers DiskSaved, once the version is on disk under its name.
func (d *Disk) Save(seq uint64, data []byte, to *actor.PID) {
	d.post(func() {
		saved := actors.DiskSaved{Seq: seq}
		if err := replace(d.path, data); err != nil {
			saved.Err = fmt.Sprintf("save the ledger: %v", err)
		}
		d.system.Root.Send(to, saved)
	})
}

// Quarantine puts the record aside under a name that tells when.
func (d *Disk) Quarantine() {
	d.post(func() {
		aside := fmt.Sprintf("%s.quarantined-%s", d.path, time.Now().UTC().Format("20060102T150405.000000000"))
		if err := os.Rename(d.path, aside); err != nil {
			return // it will be replaced as a whole by the next save
		}
		_ = syncDir(filepath.Dir(d.path))
		old, _ := filepath.Glob(d.path + ".quarantined-*") // in the order of time, by their names
		for _, name := range old[:max(0, len(old)-keptAside)] {
			_ = os.Remove(name)
		}
	})
}

// Close waits until all that was asked for is done.
func (d *Disk) Close() { d.work.Wait() }

func (d *Disk) post(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.todo = append(d.todo, do)
	if !d.busy {
		d.busy = true
		d.work.Go(d.run)
	}
}

func (d *Disk) run() {
	for {
		d.mu.Lock()
		if len(d.todo) == 0 {
			d.busy = false
			d.mu.Unlock()
			return
		}
		do := d.todo[0]
		d.todo = d.todo[1:]
		d.mu.Unlock()
		do()
	}
}

// replace writes beside the record and renames over it, so that a reader sees
// one whole version or the other, whenever the power goes. A sync that failed is
// never repeated on the same file: the kernel may have dropped what it could not
// write and report success the next time. The next save begins with a new file.
func replace(path string, data []byte) error {
	temporary := path + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // a full disk needs the room
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
