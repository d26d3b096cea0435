//go:build linux

// Package island gives a machine of a test a network of its own, with one cable to ours that can be cut without anybody
// being told. It owns how that is made, and that nothing of it is left: the network has no name on the machine, and
// ends with its last process.
package island

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Island is one network, and its cable.
type Island struct {
	Address, Machine string // ours and that of the machine
	cable, theirs    string // the cable's two ends
	network          *os.File
	path             string // where other programs find it
}

// Most is how many a test process can have.
const Most = 64

// nobody is a hardware address that no device here has: what is sent there is lost.
const nobody = "02:00:00:00:00:fe"

// New makes an island. Its names and addresses come from the test process's id and from a number below Most, which no
// other island of the process has. Close takes it away.
func New(number int) (*Island, error) {
	pid := os.Getpid()
	// Of class E, which no network has, and no private network of a job either. What is set aside for tests of networks is
	// theirs.
	net := fmt.Sprintf("%d.%d.%d.", 240+pid>>16%15, pid>>8&255, pid&255)
	i := &Island{
		Address: fmt.Sprintf("%s%d", net, 4*number+1), Machine: fmt.Sprintf("%s%d", net, 4*number+2),
		cable: fmt.Sprintf("sy%d-%d", pid, number), theirs: fmt.Sprintf("sz%d-%d", pid, number),
	}
	if err := i.hold(); err != nil {
		return nil, fmt.Errorf("a network of its own: %w", err)
	}
	err := ours("link", "add", i.cable, "type", "veth", "peer", "name", i.theirs, "netns", i.path)
	for _, args := range [][]string{{"addr", "add", i.Address + "/30", "dev", i.cable}, {"link", "set", i.cable, "up"}} {
		if err == nil {
			err = ours(args...)
		}
	}
	for _, args := range [][]string{
		{"addr", "add", i.Machine + "/30", "dev", i.theirs}, {"link", "set", i.theirs, "up"}, {"link", "set", "lo", "up"},
		{"route", "add", "default", "via", i.Address}, // it reaches every address of ours through its cable
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

// hold makes the network namespace, and holds it by a descriptor. `ip netns add` would give it a name, and for that a
// mount that stays on the machine for ever.
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

// Close takes the cable away at once. Tasks that still run there keep the rest.
func (i *Island) Close() {
	_ = ours("link", "del", i.cable)
	i.network.Close()
}

// Within is how a program is started on the island, apart from us in no other way.
func (i *Island) Within(program string, args ...string) (string, []string) {
	return "nsenter", append([]string{"--net=" + i.path, program}, args...)
}

// Cut loses every packet between the two silently, as when a switch dies: each side sends to a device that is not
// there. Cut one way, only what goes to the machine is lost.
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
