package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/unixsocket"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests a cluster of `up` from inside its own tasks. A task has no credentials and finds none, so it can make
// no call, open no stream and join no node. The intruder is this test's own program, run as a task.

// intruding is the argument that makes the program the intruder. The arguments after it are the scheduler's address,
// the folder of `up`, the folder of the programs, and the host's pace, which a task would measure wrongly.
const intruding = "intrude"

// intrude tries every way of access, prints the successful ones, and last the number of tries.
func intrude(address, cluster, programs string) int {
	i := &intruder{address: address, programs: programs}
	forged, err := i.forge()
	if err != nil {
		fmt.Println("it cannot forge:", err)
		return 1
	}
	i.calls("in plaintext", insecure.NewCredentials())
	i.calls("by TLS without a certificate", credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	pair := *forged.Pair.TLS()
	i.calls("with a certificate of its own making",
		credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}))
	i.callsHere(filepath.Join(cluster, "scheduler"))
	i.joins("in plaintext")
	i.joins("with a certificate of its own making", "--tls", forged.Dir)
	i.reads(cluster)
	fmt.Println("tried", i.tried, "ways")
	return 0
}

type intruder struct {
	address, programs string
	forgery           string // the folder with a certificate that it made itself
	tried             int
}

func (i *intruder) tell(in bool, format string, args ...any) {
	i.tried++
	if in {
		fmt.Println("IN:", fmt.Sprintf(format, args...))
	}
}

// forge makes a node certificate like those of a cluster of `up`, by another root.
func (i *intruder) forge() (*identity.Folder, error) {
	root, err := identity.NewRoot("local", time.Now())
	if err != nil {
		return nil, err
	}
	by, err := (&identity.Folder{Roots: root.Chain, Pair: root}).Certify(identity.RoleScheduler, "s", time.Now())
	if err != nil {
		return nil, err
	}
	forged, err := by.Certify(identity.RoleNode, "intruder", time.Now())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "forged-")
	if err != nil {
		return nil, err
	}
	forged.Dir = filepath.Join(dir, "tls")
	i.forgery = forged.Dir
	return forged, forged.Create()
}

// calls makes every call and opens every stream of a scheduler with an empty request. An answer about the request
// itself means that access was granted.
func (i *intruder) calls(how string, proof credentials.TransportCredentials, more ...grpc.DialOption) {
	more = append(more, grpc.WithTransportCredentials(proof))
	conn, err := grpc.NewClient("passthrough:///"+i.address, more...)
	if err != nil {
		i.tell(true, "%v", err)
		return
	}
	defer conn.Close()
	shut := func(err error) bool {
		return status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded
	}
	for _, service := range []grpc.ServiceDesc{api.Synapse_ServiceDesc, api.Scheduler_ServiceDesc} {
		for _, m := range service.Methods {
			ctx, cancel := context.WithTimeout(context.Background(), pace.Of(5*time.Second))
			name := "/" + service.ServiceName + "/" + m.MethodName
			err := conn.Invoke(ctx, name, &emptypb.Empty{}, &emptypb.Empty{})
			i.tell(!shut(err), "%s %s: %v", name, how, err)
			cancel()
		}
	}
	for _, name := range []string{
		"/synapse.v1.Synapse/Watch", "/synapse.v1.Synapse/ReadLogs", "/remote.Remoting/Receive",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), pace.Of(5*time.Second))
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
		if err == nil {
			_ = stream.SendMsg(&emptypb.Empty{})
			err = stream.RecvMsg(&emptypb.Empty{})
		}
		i.tell(!shut(err), "%s %s: %v", name, how, err)
		cancel()
	}
}

// callsHere tries the local socket of the scheduler's host.
func (i *intruder) callsHere(dataDir string) {
	i.calls("by the local socket", credential.Beside(nil), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, unixsocket.Path(dataDir))
		}))
}

// joins runs an agent for a while.
func (i *intruder) joins(how string, more ...string) {
	dir, err := os.MkdirTemp("", "intruder-")
	if err != nil {
		i.tell(true, "%v", err)
		return
	}
	agent := exec.Command(filepath.Join(i.programs, "synapse-node"), append([]string{
		"--join", i.address, "--data-dir", dir, "--id", "intruder", "--gpus", "64", "--driver", "process",
		"--address", "127.0.0.1",
	}, more...)...)
	heard := &said{}
	agent.Stdout, agent.Stderr = heard, heard
	if err := agent.Start(); err != nil {
		i.tell(true, "%v", err)
		return
	}
	says := func(words string, within time.Duration) bool {
		for limit := time.Now().Add(within); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			if strings.Contains(heard.String(), words) {
				return true
			}
		}
		return false
	}
	if says("Starting Worker Node", 30*time.Second) {
		i.tell(says("Linked to", 2*time.Second), "a machine %s: %s", how, heard)
	} else {
		fmt.Printf("the agent did not come up: %s\n", heard)
	}
	_ = agent.Process.Kill()
	_ = agent.Wait() // it was killed
}

// reads searches the cluster's folder for keys and records. Its own scratch may be there as well.
func (i *intruder) reads(cluster string) {
	i.tried++
	_ = filepath.WalkDir(cluster, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path == filepath.Dir(i.forgery) {
			return filepath.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() {
			return nil
		}
		if _, err := os.ReadFile(path); err == nil &&
			(strings.Contains(path, "/keys/") || strings.Contains(path, "/scheduler/") || strings.Contains(path, "/tls/")) {
			fmt.Println("IN: it reads", path)
		}
		return nil
	})
}

// TestUpFromWithin checks that a task of `up` cannot affect its own cluster, in any driver and on any network.
func TestUpFromWithin(t *testing.T) {
	t.Parallel()
	t.Run("process", func(t *testing.T) { fromWithin(t, nil, "process", "host") })
	for _, driver := range []string{"carapace", "oci"} {
		t.Run(driver, func(t *testing.T) {
			needDriver(t, driver)
			fromWithin(t, nil, driver, "host", "private")
		})
	}
	t.Run("of an ordinary user", func(t *testing.T) {
		able.Need(t, able.Root)
		fromWithin(t, &syscall.Credential{Uid: 61874, Gid: 61874}, "process", "host")
	})
}

func fromWithin(t *testing.T, as *syscall.Credential, driver string, networks ...string) {
	l := upAs(t, as, "--nodes", "2", "--driver", driver)
	l.ready(2, 16, 1)
	for _, network := range networks {
		if network == "private" && strings.Contains(l.errors.String(), "Private networks are not available here") {
			t.Log("this host has no private networks")
			continue
		}
		said := l.intruded("--network", network)
		if !strings.HasPrefix(said, "tried ") {
			t.Errorf("on network %s: %s", network, said)
		}
		if network == "private" {
			defer l.killedWithNetwork()
		}
	}
	if as != nil { // the task runs as the cluster's user, and only one barrier keeps it from the socket
		l.telling(fmt.Sprintf("by the local socket: process of uid %d is refused: ", as.Uid))
	}
	nodes := l.cli("get", "nodes", "-q").wants(t, 0, "", "").out
	if nodes != "node-1\nnode-2\n" {
		t.Errorf("unexpected nodes: %q", nodes)
	}
	if driver == "process" { // plain processes can reach the port, and each tried way prints a line
		l.telling("client does not use TLS")
		l.telling("no certificate was presented")
		l.telling("client does not accept this scheduler's certificate")
	}
}

// killedWithNetwork kills the cluster while a job has a private network. `up --clean` must remove the network and the
// cgroups of its containers too.
func (l *local) killedWithNetwork() {
	l.t.Helper()
	l.await(l.order("exec sleep 600", "--network", "private"), "running")
	var left []string
	find := func(folder string, parts ...string) {
		l.t.Helper()
		found, _ := filepath.Glob(filepath.Join(append([]string{filepath.Dir(l.settings()), "node-*"}, parts...)...))
		if len(found) == 0 {
			l.t.Fatalf("the cluster has no file %v", parts)
		}
		for _, path := range found {
			name := filepath.Base(path)
			if name == "interface" {
				text, err := os.ReadFile(path)
				if err != nil {
					l.t.Fatal(err)
				}
				name = string(text)
			}
			left = append(left, filepath.Join(folder, name))
		}
	}
	find("/sys/class/net", "networks", "*", "interface")
	state := []string{"carapace", "0*"}
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(l.settings()), "node-*", "oci", "*", "0*")); len(found) > 0 {
		state = []string{"oci", "*", "0*"}
	}
	find("/sys/fs/cgroup/*/synapse", state...)
	find("/sys/fs/cgroup/synapse", state...)
	l.kill()
	c := l.command(filepath.Join(bin, "synapse-cli"), "up", "--clean")
	c.Env = append(os.Environ(), "TMPDIR="+l.dir)
	ask(l.t, c).wants(l.t, 0, "processes ended\n", "")
	for _, path := range append(left, filepath.Dir(l.settings())) {
		if found, _ := filepath.Glob(path); len(found) > 0 {
			l.t.Errorf("left: %v", found)
		}
	}
}

// intruded runs the intruder as a task, and returns its output.
func (l *local) intruded(more ...string) string {
	l.t.Helper()
	id := submitIntruder(l.t, l.cli, l.dir, l.address, filepath.Dir(l.settings()), more...)
	l.await(id, "succeeded")
	return l.logs(id)
}

// submitIntruder submits the intruder as a program in dir, against the scheduler at an address and the folder of its
// cluster.
func submitIntruder(
	t *testing.T, cli func(...string) result, dir, address, cluster string, more ...string,
) (id string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "intruder")
	if err := os.Link(self, program); err != nil && !errors.Is(err, fs.ErrExist) {
		text, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(program, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Remove(program) })
	args := append([]string{"submit", "-q", "--cpu", "1", "--image", "host", "--mount", bin + ":" + bin,
		"--mount", program + ":" + program}, more...)
	args = append(args, "--", program, intruding, address, cluster, bin, strconv.Itoa(pace.Factor()))
	return strings.TrimSpace(cli(args...).wants(t, 0, "\n", "").out)
}

// TestUpInsecure checks that plaintext needs two flags and a loud warning, and that the same intruder then gets access.
func TestUpInsecure(t *testing.T) {
	once := up(t, "--nodes", "1", "--insecure")
	once.ends(2, 10*time.Second)
	once.telling("--insecure is unsafe: tasks on this host could control the cluster without a key")
	l := upAgain(t, "--nodes", "1", "--driver", "process", "--insecure", "--insecure")
	l.ready(1, 8, 1)
	l.telling("INSECURE: this cluster uses plaintext")
	said := l.intruded()
	for _, way := range []string{"/synapse.v1.Synapse/Submit in plaintext", "/v1.Scheduler/SubmitJob in plaintext",
		"/synapse.v1.Synapse/ChangeNode in plaintext", "/remote.Remoting/Receive in plaintext", "a machine in plaintext"} {
		if !strings.Contains(said, "IN: "+way) {
			t.Errorf("%s gives no access even here, so the other tests of it prove nothing: %s", way, said)
		}
	}
	if strings.Contains(said, "it reads") {
		t.Errorf("the task reads hidden files: %s", said)
	}
}

// TestUpKeysAreItsUsers checks that another user finds no access in the cluster's files.
func TestUpKeysAreItsUsers(t *testing.T) {
	able.Need(t, able.Root)
	l := up(t, "--nodes", "1")
	l.ready(1, 8, 1)
	other := l.command(filepath.Join(bin, "synapse-cli"), "get", "nodes")
	other.Env = append(other.Env, "SYNAPSE_SERVER=", "SYNAPSE_TLS=", "SYNAPSE_CONFIG="+l.settings())
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61874, Gid: 61874}}
	ask(t, other).wants(t, 2, "", "permission denied")
	if badge, err := credential.OpenBadge(l.tls, identity.RoleAdmin); err != nil || badge.Identity().Cluster != "local" {
		t.Errorf("its user: %v", err)
	}
}
