// Package machine describes this node: its id, its boot, the start of its agent, its capacity and its address.
package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/file"
)

// Machine owns the agent's data directory. It holds the lock of the directory from Open to Close, because two agents in
// one directory would both manage the same tasks.
type Machine struct {
	dir         string
	lock        *os.File
	node        string
	machineID   string
	incarnation *messages.Incarnation
}

const (
	lockName    = "agent.lock"
	nodeName    = "node-id"
	startsName  = "last-start"
	machineName = "machine-id"
)

// errInUse reports a directory that another agent uses.
var errInUse = errors.New("another agent uses this data directory")

// Open locks a data directory, and makes it if it does not exist. Other users may pass through it, because their tasks
// work in directories below it.
func Open(dir string) (*Machine, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("set the mode of the data directory: %w", err)
	}
	m := &Machine{dir: dir}
	var err error
	if m.lock, err = takeLock(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if err := m.identify(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func takeLock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s; stop that agent, or use another directory for this one", errInUse, filepath.Dir(name))
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}

func (m *Machine) identify() error {
	var err error
	if m.node, err = m.once(nodeName, func() (string, error) { return uuid.NewString(), nil }); err != nil {
		return err
	}
	system, err := m.systemID()
	if err != nil {
		return err
	}
	// The id combines both parts. A copy of this directory on another host is another node, and so is a second
	// agent on this host with its own directory.
	m.machineID = system + "." + m.node
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("read the boot id: %w", err)
	}
	m.incarnation = &messages.Incarnation{BootId: strings.TrimSpace(string(boot)), StartedNs: clock.BootNs()}
	return m.later()
}

// later ensures that no two starts of one boot have the same number, even if the clock is coarse. The start is on disk
// before the agent sends anything.
func (m *Machine) later() error {
	name := filepath.Join(m.dir, startsName)
	var boot string
	var at int64
	if data, err := os.ReadFile(name); err == nil {
		if n, _ := fmt.Sscanf(string(data), "%s %d", &boot, &at); n == 2 && boot == m.incarnation.BootId {
			m.incarnation.StartedNs = max(m.incarnation.StartedNs, at+1)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record the start: %w", err)
	}
	return keep(name, fmt.Sprintf("%s %d\n", m.incarnation.BootId, m.incarnation.StartedNs))
}

// once reads a value that was made at the first start, or makes it. An empty file was torn by a power failure before
// its content was sent to any other process.
func (m *Machine) once(name string, create func() (string, error)) (string, error) {
	path := filepath.Join(m.dir, name)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if id := strings.TrimSpace(string(data)); id != "" {
		return id, nil
	}
	id, err := create()
	if err != nil {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	return id, keep(path, id+"\n")
}

// keep replaces the content of a file durably.
func keep(path, text string) error {
	if err := file.ReplaceDurably(path, []byte(text)); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// systemID returns the id of the host. It is read again at every start, so a copy of the data directory is detected. If
// the system has no id, one is made and kept, and copies are detected only by their boots.
func (m *Machine) systemID() (string, error) {
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if data, err := os.ReadFile(name); err == nil && len(strings.TrimSpace(string(data))) >= 16 {
			return strings.TrimSpace(string(data)), nil
		}
	}
	return m.once(machineName, func() (string, error) { return uuid.NewString(), nil })
}

// NodeID returns this node's id in the cluster, made once and kept.
func (m *Machine) NodeID() string { return m.node }

// MachineID returns an id that differs from that of another host with a copy of this disk.
func (m *Machine) MachineID() string { return m.machineID }

// BootID returns the id of this boot.
func (m *Machine) BootID() string { return m.incarnation.BootId }

// Incarnation identifies this start of the agent.
func (m *Machine) Incarnation() *messages.Incarnation {
	return &messages.Incarnation{BootId: m.incarnation.BootId, StartedNs: m.incarnation.StartedNs}
}

// Close unlocks the data directory.
func (m *Machine) Close() { m.lock.Close() }
