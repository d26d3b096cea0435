//go:build linux

// Package island gives a test node a separate network, with one cable to the host's network that can be cut without
// notice. Nothing of it stays behind: the network has no name on the host, and ends with its last process.
package island

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Island is one network with its cable.
type Island struct {
	Address, Machine string // the host's address and the node's
	cable, theirs    string // the cable's two ends
	network          *os.File
	path             string // path of the namespace for other programs
}

// Most is the maximum number of islands of a test process.
const Most = 64

// nobody is a hardware address that no device here has, so packets to it are lost.
const nobody = "02:00:00:00:00:fe"

// New creates an island. Its names and addresses are derived from the test process's ID and from a number below Most,
// which no other island of the process may have. Close removes it.
func New(number int) (*Island, error) {
	pid := os.Getpid()
	// The addresses are of class E, which no network and no private network of a job uses. The ranges reserved for
	// tests of networks are needed by such tests.
	net := fmt.Sprintf("%d.%d.%d.", 240+pid>>16%15, pid>>8&255, pid&255)
	i := &Island{
		Address: fmt.Sprintf("%s%d", net, 4*number+1), Machine: fmt.Sprintf("%s%d", net, 4*number+2),
		cable: fmt.Sprintf("sy%d-%d", pid, number), theirs: fmt.Sprintf("sz%d-%d", pid, number),
	}
	if err := i.hold(); err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	err := ours("link", "add", i.cable, "type", "veth", "peer", "name", i.theirs, "netns", i.path)
	for _, args := range [][]string{{"addr", "add", i.Address + "/30", "dev", i.cable}, {"link", "set", i.cable, "up"}} {
		if err == nil {
			err = ours(args...)
		}
	}
	for _, args := range [][]string{
		{"addr", "add", i.Machine + "/30", "dev", i.theirs}, {"link", "set", i.theirs, "up"}, {"link", "set", "lo", "up"},
		{"route", "add", "default", "via", i.Address}, // it reaches every address of the host through its cable
	} {
		if err == nil {
			err = i.there(args...)
		}
	}
	if err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// hold creates the network namespace, and holds it by a file descriptor. `ip netns add` would give it a name, and for
// that a mount that stays on the host for ever.
func (i *Island) hold() error {
	first := exec.Command("sleep", "infinity")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := first.Start(); err != nil {
		return err
	}
	defer func() {
		_ = first.Process.Kill()
		_ = first.Wait()
	}()
	var err error
	if i.network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", first.Process.Pid)); err != nil {
		return err
	}
	i.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), i.network.Fd())
	return nil
}

// Close removes the cable at once. Tasks that still run there keep the rest.
func (i *Island) Close() {
	_ = ours("link", "del", i.cable)
	i.network.Close()
}

// Within returns the command that starts a program on the island, without any other isolation.
func (i *Island) Within(program string, args ...string) (string, []string) {
	return "nsenter", append([]string{"--net=" + i.path, program}, args...)
}

// Cut silently loses every packet between the two, as when a switch dies. Each side sends to a device that does not
// exist. A one-way cut loses only packets to the node.
func (i *Island) Cut(oneWay bool) error {
	err := ours("neigh", "replace", i.Machine, "lladdr", nobody, "dev", i.cable, "nud", "permanent")
	if err == nil && !oneWay {
		err = i.there("neigh", "replace", i.Address, "lladdr", nobody, "dev", i.theirs, "nud", "permanent")
	}
	return err
}

// Mend undoes a cut of the same kind.
func (i *Island) Mend(oneWay bool) error {
	err := ours("neigh", "del", i.Machine, "dev", i.cable)
	if !oneWay {
		if far := i.there("neigh", "del", i.Address, "dev", i.theirs); err == nil {
			err = far
		}
	}
	return err
}

func ours(args ...string) error { return run("ip", args) }

func (i *Island) there(args ...string) error { return run(i.Within("ip", args...)) }

func run(program string, args []string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
