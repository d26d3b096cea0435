// Package disk keeps one machine's ledger record: always a whole version, which is on disk before a save is
// acknowledged.
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
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/serial"
)

// Disk is the ledger disk of a Node, on a file. It executes its calls in order, one after the other, beside the actors.
type Disk struct {
	system *actor.ActorSystem
	path   string
	// reserved: a file holds room for the record, which is given up when the disk is full. Only calls on the line use it.
	reserved bool

	line serial.Line
	work sync.WaitGroup // the goroutine of the line
}

// keptAside is how many quarantined records are kept: enough to see what
// happened, and no more than a machine that fails again and again can hold.
const keptAside = 8

// New keeps the record at path, whose directory must exist.
func New(system *actor.ActorSystem, path string) *Disk {
	d := &Disk{system: system, path: path}
	d.line.Go = func(run func()) bool { d.work.Go(run); return true }
	return d
}

// Load answers DiskLoaded. An earlier agent may have ended after an exchange that was not durable yet: on disk its
// spare may still be the record, so it must not be overwritten.
func (d *Disk) Load(to *actor.PID) {
	d.line.Post(func() {
		_ = os.Remove(spareOf(d.path))
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
	d.line.Post(func() {
		saved := actors.DiskSaved{Seq: seq}
		if err := d.save(data); err != nil {
			saved.Err = fmt.Sprintf("save the ledger: %v", err)
		}
		d.system.Root.Send(to, saved)
	})
}

// Quarantine puts the record aside under a name with the time.
func (d *Disk) Quarantine() {
	d.line.Post(func() {
		aside := fmt.Sprintf("%s.quarantined-%s", d.path, time.Now().UTC().Format("20060102T150405.000000000"))
		if err := os.Rename(d.path, aside); err != nil {
			return // it will be replaced as a whole by the next save
		}
		_ = file.SyncDir(filepath.Dir(d.path))
		old, _ := filepath.Glob(d.path + ".quarantined-*") // in the order of time, by their names
		for _, name := range old[:max(0, len(old)-keptAside)] {
			_ = os.Remove(name)
		}
	})
}

// Close waits until all calls are done.
func (d *Disk) Close() { d.work.Wait() }

// reserveBytes is room for the largest record that a machine is likely to have, twice.
const reserveBytes = 4 << 20

// save replaces the record. On a full disk it takes the room that was held for the record: most often tasks have filled
// the disk, and a machine is not broken because of what its tasks write. The room is held again as soon as there is
// some.
func (d *Disk) save(data []byte) error {
	err := replace(d.path, data)
	if errors.Is(err, unix.ENOSPC) && os.Remove(reserveOf(d.path)) == nil {
		d.reserved = false
		err = replace(d.path, data)
	}
	if err == nil && !d.reserved {
		wrong := reserve(reserveOf(d.path))
		d.reserved = wrong == nil || errors.Is(wrong, unix.EOPNOTSUPP)
	}
	return err
}

func reserveOf(path string) string { return path + ".reserve" }

// reserve makes a file with allocated blocks. On a file system that cannot allocate them nothing is held.
func reserve(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, reserveBytes)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// replace writes beside the record and exchanges the two files, so that a reader sees one whole version or the other,
// whenever the power fails. The next version is written over the one before: to create a file costs more than all else
// here together. A sync that failed is never repeated on the same file: the kernel may have dropped what it could not
// write and report success the next time. The next save begins with a new file.
func replace(path string, data []byte) error {
	spare := spareOf(path)
	err := file.Write(spare, data, true)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err != nil { // the first version, or a file system that cannot exchange
			err = os.Rename(spare, path)
		}
	}
	if err == nil {
		err = file.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(spare) // a full disk needs the room, and this file may still be the record on disk
	}
	return err
}

func spareOf(path string) string { return path + ".spare" }
