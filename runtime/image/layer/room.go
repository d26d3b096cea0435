//go:build linux

package layer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file stops an image on a short disk. It reads the free space of the file system during unpacking, because the
// sizes in an archive cannot be trusted.

const (
	// lookAfter is the number of written bytes between two checks of the disk. An entry counts as some bytes,
	// because many empty files fill a disk too.
	lookAfter  = 1 << 20
	entryBytes = lookAfter / 64
	// fullExit is the exit code of a child that stopped at the reserve. Its output is then only the number of
	// written bytes and the free space.
	fullExit = 3
)

// FullError reports a layer that stopped at the reserve.
type FullError struct {
	Written     int64 // bytes of the layer written at that time
	Free, Least int64 // bytes of the disk: those free at that time, and those that must stay free
}

func (e *FullError) Error() string {
	return fmt.Sprintf("after %d bytes of the layer, %d were free, and %d must stay free", e.Written, e.Free, e.Least)
}

// IsFull reports whether an error means lack of disk space, at the reserve or at the end of the disk.
func IsFull(err error) bool {
	full := new(FullError)
	return errors.As(err, &full) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// least returns the disk space that must stay free.
func (l Limits) least() tree.Usage { return tree.Usage{Bytes: l.FreeBytes, Files: l.FreeFiles} }

// meter checks the disk at intervals while bytes are written to it.
type meter struct {
	fd      int
	least   tree.Usage
	written int64
	since   int64 // bytes after the last check
}

func (m *meter) wrote(bytes int64) error {
	m.written += bytes
	return m.count(bytes)
}

// entry counts an entry, which itself uses disk space.
func (m *meter) entry() error { return m.count(entryBytes) }

func (m *meter) count(bytes int64) error {
	if m.since += bytes; m.since < lookAfter {
		return nil
	}
	m.since = 0
	return m.look()
}

// look returns an error if less space is free than must be.
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

// asFull parses the final report of a child that stopped at the reserve.
func asFull(said string) error {
	full := &FullError{}
	_, _ = fmt.Sscanf(said, fullSays, &full.Written, &full.Free, &full.Least)
	return full
}
