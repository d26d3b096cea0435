//go:build linux

package layer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns where an image stops on a disk that gets short. What counts is what the file system says is free while
// the image is unpacked, because the sizes in an archive are its maker's.

const (
	// lookAfter is how many bytes may be written between two looks at the disk. An entry counts for a few of them: a
	// million empty files fill a disk too.
	lookAfter  = 1 << 20
	entryBytes = lookAfter / 64
	// fullExit is the exit code of a child that stopped at the reserve. What it had written is all that it says then.
	fullExit = 3
)

// FullError is why a layer stopped at the reserve.
type FullError struct {
	Written     int64 // bytes of the layer by then
	Free, Least int64 // bytes of the disk: those free then, and those that stay free
}

func (e *FullError) Error() string {
	return fmt.Sprintf("after %d bytes of it %d were free, of which %d stay so", e.Written, e.Free, e.Least)
}

// IsFull reports whether something stopped for want of room, at the reserve or at the disk's own end.
func IsFull(err error) bool {
	full := new(FullError)
	return errors.As(err, &full) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// least returns the disk space that must stay free.
func (l Limits) least() tree.Usage { return tree.Usage{Bytes: l.FreeBytes, Files: l.FreeFiles} }

// meter looks at the disk now and then while something is written to it.
type meter struct {
	fd      int
	least   tree.Usage
	written int64
	since   int64 // of the last look
}

func (m *meter) wrote(bytes int64) error {
	m.written += bytes
	return m.count(bytes)
}

// entry counts an entry, which takes room of its own.
func (m *meter) entry() error { return m.count(entryBytes) }

func (m *meter) count(bytes int64) error {
	if m.since += bytes; m.since < lookAfter {
		return nil
	}
	m.since = 0
	return m.look()
}

// look refuses to go on where less is free than must be.
func (m *meter) look() error {
	if m.least == (tree.Usage{}) {
		return nil
	}
	disk, err := reserve.At(m.fd)
	if err == nil && disk.Lacks(m.least) {
		err = &FullError{m.written, disk.Free.Bytes, m.least.Bytes}
	}
	return err
}

// last returns the final report of a child that stopped.
func (m *meter) last(err error) string {
	full := new(FullError)
	if !errors.As(err, &full) {
		disk, _ := reserve.At(m.fd)
		full = &FullError{m.written, disk.Free.Bytes, m.least.Bytes}
	}
	return fmt.Sprintf(fullSays, full.Written, full.Free, full.Least)
}

const fullSays = "%d %d %d"

// asFull is the error of a child that stopped at the reserve, by what it said.
func asFull(said string) error {
	full := &FullError{}
	_, _ = fmt.Sscanf(said, fullSays, &full.Written, &full.Free, &full.Least)
	return full
}
