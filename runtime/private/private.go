//go:build linux

// Package private gives jobs a network of their own: a pair of virtual interfaces, one end in a network namespace
// for the job's tasks, the other on the machine, out by the machine's address, and nothing in. It owns all parts of
// such networks on a machine, from the namespace to the rules, and ensures that nothing of them is left behind. The
// drivers decide which tasks are in one.
//
// All that is made belongs either to one network, and is removed with it, or to one agent (its table of rules), or
// to the machine (forwarding), which the last one that needs it resets. Two agents see each other's interfaces, and
// share only a lock.
package private

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/tree"
)

const (
	// family begins the names of all agents' interfaces on a machine.
	family      = "syn"
	insideName  = "eth0"
	nsFile      = "ns"
	namesFile   = "resolv.conf"
	holdersName = "holders"
	linkFile    = "interface" // the name of a network's end on the machine
	// shared is where agents of one machine meet.
	shared = "/run/synapse-networks"
)

// span is where networks have their addresses: it is reserved for benchmarks of network devices, and no real network
// has it.
var span = netip.MustParsePrefix("198.18.0.0/15")

// Options configure an agent's networks.
type Options struct {
	// Dir belongs to the agent's networks alone.
	Dir string
	// Resolvers are the name servers; none: those of the machine.
	Resolvers []netip.Addr
	// Names are the files in which the machine lists its name servers, the best first; nil: the usual ones.
	Names []string
}

// Networks are the networks of an agent.
type Networks struct {
	o      Options
	prefix string // of this agent's interfaces
	mu     sync.Mutex
	places []egress.Place
}

// usualNames are the files in which machines list their name servers.
var usualNames = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf",
	"/run/NetworkManager/no-stub-resolv.conf"}

// Open takes over what earlier agents left in the directory, and removes what no longer has a holder.
func Open(o Options) (*Networks, error) {
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	n := networksIn(o)
	return n, n.Sweep()
}

func networksIn(o Options) *Networks {
	return &Networks{o: o, prefix: fmt.Sprintf("%s%08x", family, crc32.ChecksumIEEE([]byte(o.Dir)))[:len(family)+6]}
}

// Joined is a network for a task to be put into.
type Joined struct {
	Namespace string // the machine's file for it
	Names     string // what the task is to have as /etc/resolv.conf
}

// Join makes a network if it does not exist, and notes a holder of it: a path that exists as long as the network is
// needed.
func (n *Networks) Join(name, holder string) (Joined, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir := filepath.Join(n.o.Dir, name)
	holders := filepath.Join(dir, holdersName)
	if err := os.MkdirAll(holders, 0o711); err != nil {
		return Joined{}, err
	}
	mark := filepath.Join(holders, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(holder))))
	if err := os.WriteFile(mark, []byte(holder), 0o600); err != nil {
		return Joined{}, err
	}
	joined := Joined{filepath.Join(dir, nsFile), filepath.Join(dir, namesFile)}
	err := locked(func() error { return n.make(joined) })
	if err != nil {
		err = errors.Join(err, n.release(name, holder))
	}
	return joined, err
}

// Release ends a holder's hold on a network, which is removed with its last holder.
func (n *Networks) Release(name, holder string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.release(name, holder)
}

func (n *Networks) release(name, holder string) error {
	dir := filepath.Join(n.o.Dir, name)
	mark := filepath.Join(dir, holdersName, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(holder))))
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if held, _ := os.ReadDir(filepath.Join(dir, holdersName)); len(held) > 0 {
		return nil
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return locked(func() error { return errors.Join(n.remove(dir), n.tidy()) })
}

// Sweep removes networks without holders, interfaces without a network, and what only networks need.
func (n *Networks) Sweep() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, err := os.ReadDir(n.o.Dir)
	if err != nil {
		return fmt.Errorf("networks: %w", err)
	}
	return locked(func() error {
		var failed []error
		known := map[string]bool{}
		for _, entry := range all {
			dir := filepath.Join(n.o.Dir, entry.Name())
			if held(dir) {
				known[n.outside(dir)] = true
				continue
			}
			failed = append(failed, n.remove(dir))
		}
		links, _ := netlink.LinkList() // without a list there is nothing to compare with
		for _, link := range links {
			if name := link.Attrs().Name; strings.HasPrefix(name, n.prefix) && !known[name] {
				failed = append(failed, netlink.LinkDel(link))
			}
		}
		return errors.Join(append(failed, n.tidy())...)
	})
}

// Clear removes all networks of an agent that has gone, with all of its tasks, and will not come back to its
// directory.
func Clear(dir string) error {
	if left, err := os.ReadDir(dir); len(left) == 0 {
		return err // most agents never had one, and need no rights for that
	}
	n := networksIn(Options{Dir: dir})
	marks, _ := filepath.Glob(filepath.Join(dir, "*", holdersName, "*")) // the pattern is not malformed
	for _, mark := range marks {
		if err := os.Remove(mark); err != nil {
			return fmt.Errorf("networks: %w", err)
		}
	}
	return n.Sweep()
}

// held reports whether one of a network's holders still exists, and drops those that do not.
func held(dir string) bool {
	alive := false
	marks, _ := os.ReadDir(filepath.Join(dir, holdersName))
	for _, mark := range marks {
		path := filepath.Join(dir, holdersName, mark.Name())
		holder, err := os.ReadFile(path)
		if _, gone := os.Lstat(string(holder)); err == nil && gone == nil {
			alive = true
			continue
		}
		_ = os.Remove(path)
	}
	return alive
}

// outside is the name of a network's end on the machine; empty: it was not made yet.
func (n *Networks) outside(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, linkFile))
	return string(text)
}

// remove removes one network, with all that the agent knows of it.
func (n *Networks) remove(dir string) error {
	if err := n.disconnect(dir); err != nil {
		return err
	}
	return tree.Remove(dir)
}

// disconnect removes a network from the kernel.
func (n *Networks) disconnect(dir string) error {
	if name := n.outside(dir); name != "" {
		if link, err := netlink.LinkByName(name); err == nil {
			if err := netlink.LinkDel(link); err != nil {
				return fmt.Errorf("virtual interface: %w", err)
			}
		}
	}
	for {
		switch err := unix.Unmount(filepath.Join(dir, nsFile), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
		case nil: // there may be another one below
		case unix.EINVAL, unix.ENOENT:
			return nil
		default:
			return fmt.Errorf("network namespace: %w", err)
		}
	}
}

// make makes what is missing of one network.
func (n *Networks) make(j Joined) error {
	dir := filepath.Dir(j.Namespace)
	names, err := n.names()
	if err != nil {
		return err
	}
	if err := os.WriteFile(j.Names, []byte(names), 0o644); err != nil {
		return err
	}
	if err := n.rule(); err != nil {
		return err
	}
	if isNamespace(j.Namespace) && n.outside(dir) != "" {
		if _, err := netlink.LinkByName(n.outside(dir)); err == nil {
			return nil
		}
	}
	if err := n.disconnect(dir); err != nil {
		return err
	}
	if err := newNamespace(j.Namespace); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	var random [3]byte
	_, _ = rand.Read(random[:])
	name := n.prefix + hex.EncodeToString(random[:])
	if err := os.WriteFile(filepath.Join(dir, linkFile), []byte(name), 0o600); err != nil {
		return err
	}
	return connect(name, j.Namespace)
}

// locked calls do while no other agent of the machine is inside locked. If nothing is noted for other agents, the
// lock file is removed: an agent that waits notices that, and takes the next.
func locked(do func() error) error {
	lock, err := takeLock()
	if err != nil {
		return fmt.Errorf("networks: %w", err)
	}
	defer lock.Close()
	err = do()
	if left, _ := os.ReadDir(shared); len(left) == 1 {
		_ = os.Remove(lock.Name())
		_ = os.Remove(shared)
	}
	return err
}

func takeLock() (*os.File, error) {
	path := filepath.Join(shared, "lock")
	for try := 1; ; try++ {
		err := os.MkdirAll(shared, 0o700)
		if err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
		if err == nil {
			held, wrong := lock.Stat()
			if there, gone := os.Stat(path); wrong == nil && gone == nil && os.SameFile(held, there) {
				return lock, nil
			}
			err = fs.ErrNotExist
		}
		if lock != nil {
			lock.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 1_000 {
			return nil, err
		}
	}
}
