// Package disk stores a node's ledger record. The record is always a complete version, which is on disk before a save
// is acknowledged.
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

// Disk stores the ledger of a Node in a file. It executes its calls in order, in the background.
type Disk struct {
	system *actor.ActorSystem
	path   string
	// reserved reports that a reserve file holds disk space for the record. The reserve is released when the disk
	// is full. Only calls on the line use this field.
	reserved bool

	line serial.Line
	work sync.WaitGroup // the goroutine of the line
}

// keptAside is the number of quarantined records that are kept. It is enough for a diagnosis and limits the disk space
// if records fail repeatedly.
const keptAside = 8

// New returns a Disk with its record at path. The directory must exist.
func New(system *actor.ActorSystem, path string) *Disk {
	d := &Disk{system: system, path: path}
	d.line.Go = func(run func()) bool { d.work.Go(run); return true }
	return d
}

// Load sends DiskLoaded. An earlier agent may have ended after an exchange of the files that was not durable yet. On
// disk, its spare file may still be the record, so it must not be overwritten.
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

// Save sends DiskSaved when the version is on disk under its name.
func (d *Disk) Save(seq uint64, data []byte, to *actor.PID) {
	d.line.Post(func() {
		saved := actors.DiskSaved{Seq: seq}
		if err := d.save(data); err != nil {
			saved.Err = fmt.Sprintf("save the ledger: %v", err)
		}
		d.system.Root.Send(to, saved)
	})
}

// Quarantine renames the record to a name with the time.
func (d *Disk) Quarantine() {
	d.line.Post(func() {
		aside := fmt.Sprintf("%s.quarantined-%s", d.path, time.Now().UTC().Format("20060102T150405.000000000"))
		if err := os.Rename(d.path, aside); err != nil {
			return // the next save replaces it completely
		}
		_ = file.SyncDir(filepath.Dir(d.path))
		old, _ := filepath.Glob(d.path + ".quarantined-*") // sorted by name, which is sorted by time
		for _, name := range old[:max(0, len(old)-keptAside)] {
			_ = os.Remove(name)
		}
	})
}

// Close waits until all calls are done.
func (d *Disk) Close() { d.work.Wait() }

// reserveBytes is twice the size of the largest likely record.
const reserveBytes = 4 << 20

// save replaces the record. On a full disk it uses the reserve. Usually tasks have filled the disk, and a node must not
// count as broken because of its tasks' files. The reserve is restored when there is space again.
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

// reserve makes a file with allocated blocks. It reserves nothing on a file system that cannot allocate blocks.
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

// replace writes the new version next to the record and exchanges the two files. A reader therefore always sees one
// complete version, even after a power failure. The next version overwrites the older of the two files, because
// creating a file costs more than all other steps together. A failed sync is never repeated on the same file. The
// kernel may have dropped the data, and the next sync would report success. The next save begins with a new file.
func replace(path string, data []byte) error {
	spare := spareOf(path)
	err := file.Write(spare, data, true)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err != nil { // the first version, or a file system without exchange
			err = os.Rename(spare, path)
		}
	}
	if err == nil {
		err = file.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(spare) // a full disk needs the space, and this file may still be the record on disk
	}
	return err
}

func spareOf(path string) string { return path + ".spare" }
