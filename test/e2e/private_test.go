package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests private networks on a whole cluster. The cluster is in a network namespace, which acts as the host,
// next to another namespace. The real host's network is not touched.

// insideNamespace tells this test's own process that it is in that namespace.
const insideNamespace = "SYNAPSE_E2E_NAMESPACE"

// TestNetworkPrivate checks that a job with a private network can reach the outside but not its node. After the agent
// and all supervisors were killed, the next agent must leave nothing of the network.
func TestNetworkPrivate(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Containers, able.Networks)
	if os.Getenv(insideNamespace) == "" {
		again := exec.Command("/proc/self/exe", "-test.run=^TestNetworkPrivate$", "-test.v")
		again.Env = append(os.Environ(), insideNamespace+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if text, err := again.CombinedOutput(); err != nil || !strings.Contains(string(text),
			"--- PASS: TestNetworkPrivate ") {
			t.Errorf("%v:\n%s", err, text)
		}
		return
	}
	outside := besideMachine(t)
	for _, driver := range []string{"carapace", "oci"} {
		t.Run(driver, func(t *testing.T) { // one after the other, because they share the host
			needDriver(t, driver)
			c := newClusterOf(t, "")
			c.contain(driver)
			privateNetwork(t, c, outside)
		})
	}
}

// besideMachine creates the host's network, and a process that answers outside.
func besideMachine(t *testing.T) (port string) {
	up := func(name, address string) {
		link, err := netlink.LinkByName(name)
		if err == nil && address != "" {
			given, _ := netlink.ParseAddr(address)
			err = netlink.AddrAdd(link, given)
		}
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	joined, answers := make(chan int), make(chan string)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			joined <- -1
			return
		}
		fd, _ := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		joined <- fd
		<-joined
		up("down0", "10.99.0.2/24")
		listener, err := net.Listen("tcp", "10.99.0.2:0")
		if err != nil {
			answers <- ""
			return
		}
		_, at, _ := net.SplitHostPort(listener.Addr().String())
		answers <- at
		for {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	fd := <-joined
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "up0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "down0",
		PeerNamespace: netlink.NsFd(fd)}); err != nil {
		t.Fatal(err)
	}
	up("lo", "")
	up("up0", "10.99.0.1/24")
	if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP("10.99.0.2")}); err != nil {
		t.Fatal(err)
	}
	joined <- 0
	return <-answers
}

func privateNetwork(t *testing.T, c *cluster, outside string) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("resolvers: [10.99.0.2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := c.node("n1", "r1", "--job-policy", policy)
	_, scheduler, _ := net.SplitHostPort(c.address)
	tries := ""
	for _, at := range []string{"10.99.0.2/" + outside, "10.99.0.1/" + scheduler, "127.0.0.1/" + scheduler} {
		tries += "(exec 3<>/dev/tcp/" + at + ") 2>/dev/null && echo open || echo closed; "
	}
	script := tries + "grep nameserver /etc/resolv.conf; echo meets at $MASTER_ADDR"
	private := func(script string) string {
		spec := gang(2, 0, script)
		spec.Command[0], spec.Network = "/bin/bash", messages.Network_NETWORK_PRIVATE
		spec.Topology = &messages.TopologySpec{Required: "node"}
		return c.submit(spec)
	}
	id := private(script)
	c.await(id, "succeeded")
	if said := c.logs(id); said != strings.Repeat("open\nclosed\nclosed\nnameserver 10.99.0.2\nmeets at 127.0.0.1\n",
		2) {
		t.Errorf("it said %q", said)
	}
	id = private("sleep 1000")
	c.await(id, "running")
	if left := ownInterfaces(t); len(left) != 1 {
		t.Errorf("unexpected addresses of two tasks of one job: %v", left)
	}
	n.kill()
	killAll(filepath.Join(c.dir, "n1"))
	c.node("n1", "r1", "--job-policy", policy)
	c.cancel(id)
	c.await(id, "cancelled")
	withoutNetworks(t, filepath.Join(c.dir, "n1"))
	if left := ownInterfaces(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// withoutNetworks waits until the agent of a data directory has removed all private networks, which may be some time
// after the end of their jobs. An agent that is killed earlier leaves a mount of the host for each.
func withoutNetworks(t *testing.T, dir string) {
	t.Helper()
	for limit := pace.Until(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		kept, err := os.ReadDir(filepath.Join(dir, "networks"))
		if err == nil && len(kept) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("left: %v (%v)", kept, err)
		}
	}
}

// ownInterfaces returns the interfaces of private networks.
func ownInterfaces(t *testing.T) (names []string) {
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, "syn") {
			names = append(names, link.Attrs().Name)
		}
	}
	return names
}
