//go:build linux

// This file tests private networks in a separate network namespace, which imitates a host. The real host's network is
// not affected.
package conformance

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/test/able"
)

// networks holds the networks for the stacks of a test; nil: none.
var networks container.Private

const asMachine = "SYNAPSE_TEST_MACHINE"

// onAMachine runs a test in such a namespace, with an outside that can only reach the host's address. It has separate
// mounts too.
func onAMachine(t *testing.T, test func(t *testing.T, o *outside)) {
	t.Helper()
	able.Need(t, able.Root, able.Networks) // otherwise an agent provides no private networks
	if os.Getenv(asMachine) == t.Name() {
		must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		// A new network namespace inherits the real host's forwarding, which another test may have enabled.
		must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0))
		test(t, newOutside(t))
		return
	}
	again := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), asMachine+"="+t.Name(), builtBefore+"="+buildCommand(t))
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	text, err := again.CombinedOutput()
	switch {
	case strings.Contains(string(text), "--- SKIP: "+t.Name()+" "):
		t.Skip(string(text))
	case err != nil || !strings.Contains(string(text), "--- PASS: "+t.Name()+" "):
		t.Errorf("%v:\n%s", err, text)
	}
}

// outside is a thread in another network namespace, which imitates the network beyond the host.
type outside struct {
	t    *testing.T
	work chan func()
}

const (
	machineAddress = "10.99.0.1"
	outsideAddress = "10.99.0.2"
	farAddress     = "203.0.113.7"
)

func newOutside(t *testing.T) *outside {
	o, fd := elsewhere(t, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "up0"
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "down0", PeerNamespace: netlink.NsFd(fd)}))
	give(t, "lo")
	give(t, "up0", machineAddress+"/24", "fd99::1/64")
	must(t, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(outsideAddress)}))
	o.do(func() {
		give(t, "lo", farAddress+"/32", "169.254.169.254/32")
		give(t, "down0", outsideAddress+"/24", "fd99::2/64")
		// A process outside may know the address and try to connect.
		must(t, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(machineAddress), Dst: &net.IPNet{IP: net.IPv4(198, 18,
			0, 0), Mask: net.CIDRMask(15, 32)}}))
	})
	return o
}

// elsewhere starts a thread that moves into another network namespace by enter. It returns a descriptor of that
// namespace.
func elsewhere(t *testing.T, enter func() error) (o *outside, fd int) {
	o = &outside{t: t, work: make(chan func())}
	entered := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := enter()
		if err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		entered <- err
		for do := range o.work {
			do()
		}
	}()
	t.Cleanup(func() { close(o.work) })
	must(t, <-entered)
	return o, fd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give gives an interface of the calling thread's namespace addresses, and enables it.
func give(t *testing.T, name string, addresses ...string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		must(t, err)
		a.Flags = unix.IFA_F_NODAD
		must(t, netlink.AddrAdd(link, a))
	}
	must(t, netlink.LinkSetUp(link))
}

// do calls a function in that namespace.
func (o *outside) do(what func()) {
	done := make(chan struct{})
	o.work <- func() {
		defer close(done)
		what()
	}
	<-done
}

// answerer answers outside, on every address.
func (o *outside) answerer() (port string) {
	o.do(func() { port = answererOfAll(o.t) })
	return port
}

// namer answers every DNS query outside.
func (o *outside) namer() {
	o.do(func() {
		packets, err := net.ListenPacket("udp", farAddress+":53")
		must(o.t, err)
		o.t.Cleanup(func() { packets.Close() })
		go func() {
			buffer := make([]byte, 512)
			for {
				n, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo(named(buffer[:n]), from)
			}
		}()
	})
}

// named answers one DNS query: an address for IPv4, nothing for others.
func named(question []byte) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5
	answer := append([]byte(nil), question[:end]...)
	answer[2], answer[3] = 0x81, 0x80
	clear(answer[6:12])
	if binary.BigEndian.Uint16(question[end-4:]) == 1 {
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7)
	}
	return answer
}

// isCalled lets a task wait for any connection.
func isCalled() error {
	listener, err := net.Listen("tcp", "0.0.0.0:7777")
	if err != nil {
		return err
	}
	defer listener.Close()
	_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Second))
	_, err = listener.Accept()
	return err
}

// newNetworks returns the networks of an agent. Names resolve outside. The host's own name server is unreachable from
// private networks.
func newNetworks(t *testing.T, dir string) *private.Networks {
	t.Helper()
	stub, real := filepath.Join(t.TempDir(), "stub"), filepath.Join(t.TempDir(), "real")
	write(t, stub, "nameserver 127.0.0.53\noptions edns0\n", 0o644)
	write(t, real, "nameserver "+farAddress+"\n", 0o644)
	o := private.Options{Dir: dir, Names: []string{stub, real}}
	if err := private.Lacks(o); err != nil {
		t.Skip(err)
	}
	made, err := private.Open(o)
	must(t, err)
	return made
}

// cleanNetwork fails a test that leaves parts of a private network.
func cleanNetwork(t *testing.T) {
	t.Helper()
	links, err := netlink.LinkList()
	must(t, err)
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, "syn") {
			t.Errorf("left: interface %s", link.Attrs().Name)
		}
	}
	rules, err := nftables.New()
	must(t, err)
	tables, err := rules.ListTables()
	must(t, err)
	for _, table := range tables {
		t.Errorf("left: table %s", table.Name)
	}
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err != nil || string(text) != "0\n" {
		t.Errorf("left: ip_forward is %q, %v", text, err)
	}
}

// TestNetworkPrivate checks that a job with a private network reaches the outside, and that names resolve. It reaches
// neither the host's services nor a scheduler nor the cloud's metadata service. No connection can come in, and nothing
// is left behind.
func TestNetworkPrivate(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	onAMachine(t, func(t *testing.T, o *outside) {
		o.namer()
		free, scheduler, machine := o.answerer(), o.answerer(), answererOfAll(t)
		made := newNetworks(t, filepath.Join(t.TempDir(), "networks"))
		// The filter on the task's group would refuse these too; here the packet rules must do so.
		must(t, made.Refuse(append(egress.Metadata(),
			egress.Services([]netip.AddrPort{netip.MustParseAddrPort(outsideAddress + ":" + scheduler)}, nil)...)))
		networks = made
		t.Cleanup(func() { networks = nil })
		allowed := []string{"own", "tcp " + farAddress + ":" + free, "send " + outsideAddress + ":" + free,
			"tcp " + outsideAddress + ":" + free,
			"tcp " + farAddress + ":" + scheduler, "name somewhere.example"}
		refused := []string{"tcp " + outsideAddress + ":" + scheduler, "once " + outsideAddress + ":" + scheduler,
			"tcp 169.254.169.254:" + free,
			"once 169.254.169.254:" + free, "tcp " + machineAddress + ":" + machine,
			"once " + machineAddress + ":" + machine, "tcp 127.0.0.1:" + machine,
			"tcp 198.18.0.1:" + machine, "tcp [fd99::2]:" + free, "tcp [fd99::1]:" + machine,
			"tcp [::ffff:" + outsideAddress + "]:" + scheduler, "is called"}
		onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
			if driver == "process" {
				if r := s.try(t, able.MakeRootfs(t), "exit 0",
					on(messages.Network_NETWORK_PRIVATE)); !strings.HasPrefix(r.exit.Detail, "network: ") {
					t.Errorf("%v", r.exit)
				}
				return
			}
			stop := make(chan struct{})
			for _, enters := range []func(func()){o.do, func(do func()) { do() }} {
				go knock(stop, enters)
			}
			got := s.dialling(t, shown(t), on(messages.Network_NETWORK_PRIVATE), append(allowed, refused...)...)
			close(stop)
			for _, word := range allowed {
				if got[word] != "allowed" {
					t.Errorf("%s is answered %q", word, got[word])
				}
			}
			for _, word := range refused {
				if got[word] == "allowed" || got[word] == "" {
					t.Errorf("%s is answered %q", word, got[word])
				}
			}
			cleanNetwork(t)
		})
	})
}

// TestPrivateWithoutNames checks that a host without /etc/resolv.conf runs jobs with a private network on the host
// view.
func TestPrivateWithoutNames(t *testing.T) {
	onAMachine(t, func(t *testing.T, _ *outside) {
		upper := t.TempDir()
		must(t, unix.Mount("tmpfs", upper, "tmpfs", 0, ""))
		defer unix.Unmount(upper, unix.MNT_DETACH)
		etc, work := filepath.Join(upper, "etc"), filepath.Join(upper, "work")
		must(t, errors.Join(os.Mkdir(work, 0o755), os.Mkdir(etc, 0o755)))
		must(t, unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+etc+",workdir="+work))
		defer unix.Unmount("/etc", unix.MNT_DETACH)
		must(t, os.RemoveAll("/etc/resolv.conf")) // the file may be missing
		networks = newNetworks(t, filepath.Join(t.TempDir(), "networks"))
		t.Cleanup(func() { networks = nil })
		defer asksItself(t)
		onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
			if driver == "process" {
				return
			}
			r := s.try(t, "host", "ls /sys/class/net", on(messages.Network_NETWORK_PRIVATE))
			if r.said != "eth0\nlo\n" {
				t.Errorf("%v, it said %q", r.exit, r.said)
			}
			cleanNetwork(t)
		})
	})
}

// TestPrivateNoMore checks a node that can no longer provide private networks. Jobs that need one fail, but not by the
// node's fault, which would close the node for all others.
func TestPrivateNoMore(t *testing.T) {
	onAMachine(t, func(t *testing.T, _ *outside) {
		names := filepath.Join(t.TempDir(), "names")
		write(t, names, "nameserver "+farAddress+"\n", 0o644)
		made, err := private.Open(private.Options{Dir: filepath.Join(t.TempDir(), "networks"), Names: []string{names}})
		must(t, err)
		networks = made
		t.Cleanup(func() { networks = nil })
		write(t, names, "nameserver 127.0.0.53\n", 0o644)
		onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
			if driver == "process" {
				return
			}
			r := s.try(t, able.MakeRootfs(t), "exit 0", on(messages.Network_NETWORK_PRIVATE))
			if !strings.Contains(r.exit.Detail, "its own name server") || r.exit.Fault != messages.Fault_FAULT_UNKNOWN {
				t.Errorf("%v", r.exit)
			}
		})
		cleanNetwork(t)
	})
}

// asksItself makes the host its own name server with unknown upstream servers. Its agent then detects at its start that
// private networks are impossible, and announces none.
func asksItself(t *testing.T) {
	write(t, "/etc/resolv.conf", "nameserver 127.0.0.53\n", 0o644)
	for _, other := range []string{"/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf"} {
		if _, err := os.Stat(other); err == nil {
			return // the upstream servers are known
		}
	}
	lacks := private.Lacks(private.Options{Dir: t.TempDir()})
	if lacks == nil || !strings.Contains(lacks.Error(), "its own name server (127.0.0.53)") {
		t.Errorf("on a host that is its own name server, the reason is %v", lacks)
	}
}

// knock repeatedly tries to connect into the first network.
func knock(stop chan struct{}, where func(func())) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
			where(func() {
				conn, err := net.DialTimeout("tcp", "198.18.0.2:7777", 100*time.Millisecond)
				if err == nil {
					conn.Close()
				}
			})
		}
	}
}

// TestNetworkLeavings checks that the next agent removes the remains of a killed agent, and that another agent's
// networks stay. Without a next agent, Clear removes everything, regardless of holders. A later release finds nothing.
func TestNetworkLeavings(t *testing.T) {
	onAMachine(t, func(t *testing.T, _ *outside) {
		dirs := [2]string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
		one, two := newNetworks(t, dirs[0]), newNetworks(t, dirs[1])
		holder, other := filepath.Join(t.TempDir(), "task"), t.TempDir()
		must(t, os.Mkdir(holder, 0o700))
		first, err := one.Join("job", holder)
		must(t, err)
		again, err := one.Join("job", other)
		must(t, err)
		if first != again {
			t.Errorf("two tasks of one job have %v and %v", first, again)
		}
		_, err = two.Join("job", other)
		must(t, err)
		seen := map[string]bool{}
		addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		must(t, err)
		for _, a := range addresses {
			if seen[a.IPNet.String()] {
				t.Errorf("%v is given twice", a.IPNet)
			}
			seen[a.IPNet.String()] = true
		}
		must(t, one.Release("job", other))
		must(t, os.Remove(holder)) // without a release, because its agent was killed
		newNetworks(t, dirs[0])
		if left, _ := os.ReadDir(dirs[0]); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); string(text) != "1\n" {
			t.Errorf("the other agent's network is cut off: ip_forward is %q", text)
		}
		must(t, private.Clear(dirs[1]))
		cleanNetwork(t)
		if left, _ := os.ReadDir(dirs[1]); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		must(t, two.Release("job", other))
	})
}
