package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// This file owns the machines' networks: a namespace for each, with one cable to
// the schedulers, that can be cut without anybody being told.

// Parts of a cut. A one-way cut loses only what goes to the machine.
type cutting uint8

const (
	bothWays cutting = iota
	toMachine
)

// nobody is a hardware address that no device here has: what is sent there is lost.
const nobody = "02:00:00:00:00:fe"

// network is one machine's.
type network struct {
	t                   *testing.T
	name, cable, theirs string // the namespace, and the cable's two ends
	address, machine    string // ours and the machine's
}

// newNetworks makes so many, and takes them away at the end. Where that cannot be
// done it says why: the cluster is on the loopback then, and nothing is cut.
func newNetworks(t *testing.T, many int) (all []*network, why string) {
	t.Helper()
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, program + " is not installed"
		}
	}
	if os.Geteuid() != 0 {
		return nil, "only root makes network namespaces"
	}
	pid := os.Getpid()
	// Of what is set aside for tests of networks; the last byte is far from the one of other tests.
	net := fmt.Sprintf("198.%d.%d.", 18+pid>>8&1, pid&255)
	for i := range many {
		n := &network{t: t, name: fmt.Sprintf("chaos-%d-%d", pid, i), cable: fmt.Sprintf("ca%d-%d", pid, i), theirs: fmt.Sprintf("cb%d-%d", pid, i)}
		n.address, n.machine = net+strconv.Itoa(128+4*i+1), net+strconv.Itoa(128+4*i+2)
		if out, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
			return nil, "this machine gives out no network namespaces: " + strings.TrimSpace(string(out))
		}
		t.Cleanup(n.remove)
		n.lay()
		all = append(all, n)
	}
	return all, ""
}

// lay lays the cable. The machine sends all that it sends through it, so that it
// reaches every address of ours.
func (n *network) lay() {
	n.t.Helper()
	for _, args := range [][]string{
		{"link", "add", n.cable, "type", "veth", "peer", "name", n.theirs, "netns", n.name},
		{"addr", "add", n.address + "/30", "dev", n.cable},
		{"link", "set", n.cable, "up"},
		{"-n", n.name, "addr", "add", n.machine + "/30", "dev", n.theirs},
		{"-n", n.name, "link", "set", n.theirs, "up"},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "route", "add", "default", "via", n.address},
	} {
		if err := ip(args...); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *network) remove() {
	// Tasks that still run there keep it; the cable goes at once.
	_ = ip("link", "del", n.cable)
	if err := ip("netns", "del", n.name); err != nil {
		n.t.Errorf("the namespace %s is left: %v", n.name, err)
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// cut loses every packet silently, as when a switch dies.
func (n *network) cut(how cutting) error {
	err := ip("neigh", "replace", n.machine, "lladdr", nobody, "dev", n.cable, "nud", "permanent")
	if err == nil && how == bothWays {
		err = ip("-n", n.name, "neigh", "replace", n.address, "lladdr", nobody, "dev", n.theirs, "nud", "permanent")
	}
	return err
}

func (n *network) mend(how cutting) error {
	err := ip("neigh", "del", n.machine, "dev", n.cable)
	if how == bothWays {
		if far := ip("-n", n.name, "neigh", "del", n.address, "dev", n.theirs); err == nil {
			err = far
		}
	}
	return err
}

// within is how a program is started on the machine's network, and in no other
// way apart from us.
func (n *network) within(program string, args []string) (string, []string) {
	return "nsenter", append([]string{"--net=/run/netns/" + n.name, program}, args...)
}
