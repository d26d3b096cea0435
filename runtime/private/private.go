//go:build linux

// Package private provides private networks for jobs. A network is a pair of virtual interfaces: one in a network
// namespace for the job's tasks, the other on the host. Tasks connect out through the host's address, and no connection
// can come in. The package owns all parts of these networks, from the namespace to the rules, and ensures that nothing
// is left behind. The drivers decide which tasks use a network.
//
// Each part belongs to one network, one agent or the host. Parts of a network are removed with it. Each agent has a
// table of rules. Forwarding belongs to the host, and the last agent that needs it resets it. Two agents see each
// other's interfaces, and share only a lock.
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
	// family is the prefix of all agents' interface names on a host.
	family      = "syn"
	insideName  = "eth0"
	nsFile      = "ns"
	namesFile   = "resolv.conf"
	holdersName = "holders"
	linkFile    = "interface" // the name of a network's interface on the host
	// shared is the directory that all agents of one host use.
	shared = "/run/synapse-networks"
)

// span is the address range of the networks. It is reserved for benchmarks of network devices, so no real network uses
// it.
var span = netip.MustParsePrefix("198.18.0.0/15")

// Options holds the settings of an agent's networks.
type Options struct {
	// Dir is a directory for only the agent's networks.
	Dir string
	// Resolvers lists the name servers; empty: those of the host.
	Resolvers []netip.Addr
	// Names lists the files with the host's name servers, in order of preference; nil: the usual files.
	Names []string
}

// Networks holds the private networks of an agent.
type Networks struct {
	o      Options
	prefix string // of this agent's interfaces
	mu     sync.Mutex
	places []egress.Place
}

// usualNames lists the files in which hosts list their name servers.
var usualNames = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf",
	"/run/NetworkManager/no-stub-resolv.conf"}

// Open takes over the networks of earlier agents in the directory, and removes those without a holder.
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

// Joined describes a network for a task.
type Joined struct {
	Namespace string // the file of the namespace on the host
	Names     string // the file for the task's /etc/resolv.conf
}

// Join makes a network if it does not exist, and records a holder. The holder is a path that exists as long as the
// network is needed.
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

// Release removes a holder. The network is removed with its last holder.
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

// Sweep removes networks without holders, interfaces without a network, and settings that no network needs.
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
		links, _ := netlink.LinkList() // without a list there is nothing to compare
		for _, link := range links {
			if name := link.Attrs().Name; strings.HasPrefix(name, n.prefix) && !known[name] {
				failed = append(failed, netlink.LinkDel(link))
			}
		}
		return errors.Join(append(failed, n.tidy())...)
	})
}

// Clear removes all networks of an agent that has ended with all its tasks and will not use its directory again.
func Clear(dir string) error {
	if left, err := os.ReadDir(dir); len(left) == 0 {
		return err // most agents never had a network, and need no rights for that
	}
	n := networksIn(Options{Dir: dir})
	marks, _ := filepath.Glob(filepath.Join(dir, "*", holdersName, "*")) // the pattern is valid
	for _, mark := range marks {
		if err := os.Remove(mark); err != nil {
			return fmt.Errorf("networks: %w", err)
		}
	}
	return n.Sweep()
}

// held reports whether a holder of a network still exists, and removes those that do not.
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

// outside returns the name of a network's interface on the host; empty: it was not made yet.
func (n *Networks) outside(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, linkFile))
	return string(text)
}

// remove removes one network with all its records.
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
				return fmt.Errorf("remove the virtual interface: %w", err)
			}
		}
	}
	for {
		switch err := unix.Unmount(filepath.Join(dir, nsFile), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
		case nil: // there may be another mount below
		case unix.EINVAL, unix.ENOENT:
			return nil
		default:
			return fmt.Errorf("unmount the network namespace: %w", err)
		}
	}
}

// make makes the missing parts of one network.
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
		return fmt.Errorf("create the network namespace: %w", err)
	}
	var random [3]byte
	_, _ = rand.Read(random[:])
	name := n.prefix + hex.EncodeToString(random[:])
	if err := os.WriteFile(filepath.Join(dir, linkFile), []byte(name), 0o600); err != nil {
		return err
	}
	return connect(name, j.Namespace)
}

// locked calls do while no other agent of the host is inside locked. If no note for other agents is left, it removes
// the lock file. A waiting agent detects that and takes the next lock.
func locked(do func() error) error {
	lock, err := takeLock()
	if err != nil {
		return fmt.Errorf("lock the networks: %w", err)
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
