//go:build linux

package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// This file measures the disk usage of a tree. The tree may be in use. A file that moves meanwhile may be counted twice
// or not at all.

// Usage holds the size of a tree. A file with several names counts in parts, one for each name.
type Usage struct {
	Bytes int64 // the blocks of its files and directories
	Files int64 // of all kinds
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage { return Usage{u.Bytes + v.Bytes, u.Files + v.Files} }

const (
	blockBytes = 512 // of stat, regardless of the file system's block size
	// readBytes is small, because entries that were read but not visited are read again after each directory.
	readBytes = 4 << 10
	// pace is the number of entries that are visited or removed between two calls of the caller's function.
	pace = 256
	// maxHeld is the number of levels from the top that a measurement keeps open, because many measurements run at
	// once. It returns to the other levels by "..".
	maxHeld = 16
	// MaxDepth bounds the depth of a measurement, which remembers each level that it is in.
	MaxDepth = 1 << 19
)

// ErrDeep reports a tree deeper than MaxDepth.
var ErrDeep = errors.New("the tree is too deep to be measured")

// ErrStopped reports that the caller stopped the operation.
var ErrStopped = errors.New("the operation was stopped")

// Measure returns the usage of a tree. It calls goOn with the usage so far at intervals. goOn may wait, or return false
// to stop the measurement. A missing path has no usage.
func Measure(path string, goOn func(sofar Usage) bool) (Usage, error) {
	return measureWithin(path, MaxDepth, goOn)
}

func measureWithin(path string, depth int, goOn func(sofar Usage) bool) (Usage, error) {
	fd, err := open(unix.AT_FDCWD, path)
	if errors.Is(err, unix.ENOENT) {
		return Usage{}, nil
	}
	if err != nil {
		return Usage{}, fmt.Errorf("measure %s: %w", path, err)
	}
	m := &measurement{mount: mountOf(fd), depth: depth, goOn: goOn}
	defer m.close()
	err = m.walk(fd)
	if err != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("measure %s: %w", path, err)
	}
	return m.sum, err
}

// measurement is one call of Measure.
type measurement struct {
	mount  uint64
	depth  int
	goOn   func(Usage) bool
	sum    Usage
	looked int
	way    []level // from the top to the current directory
	buffer [readBytes]byte
}

// level is one directory between the top and the current one.
type level struct {
	fd     int // -1: too deep to stay open
	device uint64
	inode  uint64
	next   int64 // the offset at which reading continues
}

func (m *measurement) close() {
	for _, l := range m.way {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

// walk visits all entries once, from an open directory on, which it closes.
func (m *measurement) walk(top int) error {
	if err := m.push(top); err != nil {
		return err
	}
	for len(m.way) > 0 {
		here := &m.way[len(m.way)-1]
		n, err := unix.Getdents(here.fd, m.buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 { // a directory that was removed is empty
			m.up()
			continue
		}
		if err := m.entries(m.buffer[:n]); err != nil {
			return err
		}
	}
	return nil
}

// push enters an open directory.
func (m *measurement) push(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return err
	}
	m.add(stat.Mode, 0, stat.Blocks)
	if len(m.way) == m.depth {
		unix.Close(fd)
		return ErrDeep
	}
	if n := len(m.way); n > maxHeld { // the level above is closed, and reopened by ".."
		unix.Close(m.way[n-1].fd)
		m.way[n-1].fd = -1
	}
	m.way = append(m.way, level{fd: fd, device: stat.Dev, inode: stat.Ino})
	return nil
}

// up returns to the parent directory and continues there. If the parent is another directory, the current one was moved
// meanwhile. up then continues in the nearest directory that stayed open.
func (m *measurement) up() {
	n := len(m.way) - 1
	left := m.way[n].fd
	m.way = m.way[:n]
	defer unix.Close(left)
	if n == 0 {
		return
	}
	if above := &m.way[n-1]; above.fd < 0 {
		fd, err := open(left, "..")
		var stat unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &stat)
		}
		if err == nil && stat.Dev == above.device && stat.Ino == above.inode {
			above.fd = fd
		} else if fd >= 0 {
			unix.Close(fd)
		}
	}
	for m.way[len(m.way)-1].fd < 0 {
		m.way = m.way[:len(m.way)-1]
	}
	here := m.way[len(m.way)-1]
	// Seek fails for a directory that was removed meanwhile, which is empty.
	_, _ = unix.Seek(here.fd, here.next, io.SeekStart)
}

// The offsets in a directory's entry, as the kernel writes it.
const (
	offsetAt = 8
	lengthAt = 16
	kindAt   = 18
	nameAt   = 19
)

// entries visits the entries that were read, up to the first directory, which it enters.
func (m *measurement) entries(read []byte) error {
	here := &m.way[len(m.way)-1]
	for len(read) > nameAt {
		entry := read[:min(int(binary.NativeEndian.Uint16(read[lengthAt:])), len(read))]
		if len(entry) <= nameAt {
			return nil
		}
		read = read[len(entry):]
		here.next = int64(binary.NativeEndian.Uint64(entry[offsetAt:]))
		name, _, _ := bytes.Cut(entry[nameAt:], []byte{0})
		if string(name) == "." || string(name) == ".." {
			continue
		}
		if m.looked++; m.looked%pace == 0 && !m.goOn(m.sum) {
			return ErrStopped
		}
		if down, err := m.look(here.fd, string(name), entry[kindAt]); down || err != nil {
			return err
		}
	}
	return nil
}

// look counts an entry. down reports that the entry is a directory and that the measurement has entered it.
func (m *measurement) look(at int, name string, kind byte) (down bool, err error) {
	if kind == unix.DT_DIR || kind == unix.DT_UNKNOWN {
		fd, err := open(at, name)
		if err == nil && mountOf(fd) != m.mount {
			unix.Close(fd)
			return false, nil
		}
		if err == nil {
			return true, m.push(fd)
		}
	}
	const flags, what = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	var stat unix.Statx_t
	if unix.Statx(at, name, flags, what, &stat) != nil {
		return false, nil // it was just removed
	}
	if stat.Mask&unix.STATX_MNT_ID != 0 && stat.Mnt_id != m.mount {
		stat.Blocks = 0 // of another file that is mounted on it
	}
	m.add(uint32(stat.Mode), stat.Nlink, int64(stat.Blocks))
	return false, nil
}

func (m *measurement) add(mode, names uint32, blocks int64) {
	m.sum.Files++
	size := blocks * blockBytes
	if mode&unix.S_IFMT != unix.S_IFDIR {
		size /= max(int64(names), 1)
	}
	m.sum.Bytes += size
}
