package link

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/topology"
)

// This file owns tests of many nodes at once: that all are served, the cost of an idle one, and the duration of a
// gang's three rounds.

func TestTwoHundredLinks(t *testing.T) {
	const many = 200
	h := newHall(t, Options{})
	var cabins []*cabin
	for i := range many {
		cabins = append(cabins, newCabin(t, machineOptions(fmt.Sprintf("n%03d", i), fmt.Sprintf("m%03d", i), h.address)))
	}
	for i, n := range cabins {
		works(t, h, n, uint64(i))
	}
	h.await(t, countUp, many)
	h.close() // every stream ends, and nothing of the link is left at the scheduler's end
	h.await(t, countDown, many)
	for _, n := range cabins {
		n.await(t, countDown, 1)
	}
	if left := len(h.server.places) + len(h.server.streams); left != 0 {
		t.Errorf("%d streams or places are left", left)
	}
}

// peersVariable is the environment variable that makes a child of the test binary act as this many nodes.
const peersVariable = "SYNAPSE_LINK_TEST_PEERS"

// TestBePeers is not a test: idlePeers runs it as a separate process.
func TestBePeers(t *testing.T) {
	many, err := strconv.Atoi(os.Getenv(peersVariable))
	if err != nil {
		return
	}
	input := bufio.NewReader(os.Stdin)
	address, err := input.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		id := fmt.Sprintf("n%05d", i)
		c := Dial(newSystem(), machineOptions(id, "m"+id, address[:len(address)-1]))
		defer c.Close()
	}
	io.Copy(io.Discard, input) // until the parent has seen enough, or is gone
}

// idlePeers lets another process link this many nodes, and returns bytes and goroutines for each.
func idlePeers(tb testing.TB, many int) (bytes, goroutines float64) {
	h := newHall(tb, Options{})
	works(tb, h, newCabin(tb, machineOptions("n1", "m1", h.address)), 1)
	child := exec.Command(os.Args[0], "-test.run=^TestBePeers$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", peersVariable, many))
	stdin, err := child.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	before, running := held(), runtime.NumGoroutine()
	if err := child.Start(); err != nil {
		tb.Fatal(err)
	}
	defer child.Wait()
	defer stdin.Close()
	fmt.Fprintln(stdin, h.address)
	h.await(tb, countUp, int64(many)+1)
	for len(h.ears) > 0 {
		<-h.ears
	}
	for now, end := runtime.NumGoroutine(), time.Now().Add(patience); time.Now().Before(end); {
		was := now // temporary objects of a link's start or of earlier tests do not count for an idle link
		time.Sleep(200 * time.Millisecond)
		if now = runtime.NumGoroutine(); now == was && float64(now-running) <= goroutinesOfPeer*float64(many) {
			break
		}
	}
	bytes = float64(int64(held())-int64(before)) / float64(many)
	return bytes, float64(runtime.NumGoroutine()-running) / float64(many)
}

// held returns the size of the heap and the stacks after a garbage collection.
func held() uint64 {
	runtime.GC()
	return memory()
}

// goroutinesOfPeer limits the goroutines of an idle peer.
const goroutinesOfPeer = 5.1

func TestIdlePeersAreSmall(t *testing.T) {
	bytes, goroutines := idlePeers(t, 300)
	t.Logf("an idle peer: %.1f KB, %.2f goroutines", bytes/1000, goroutines)
	if bytes > 60_000 || goroutines > goroutinesOfPeer {
		t.Errorf("an idle peer costs %.1f KB and %.2f goroutines, want 60 and 5", bytes/1000, goroutines)
	}
}

func BenchmarkIdlePeer(b *testing.B) {
	for range b.N {
		bytes, goroutines := idlePeers(b, 1000)
		b.ReportMetric(bytes/1000, "KB/peer")
		b.ReportMetric(goroutines, "goroutines/peer")
	}
}

// begin starts the three rounds of a gang.
type begin struct{ done chan struct{} }

// conductor sends each round's message to every node, and waits for all answers before the next round.
type conductor struct {
	nodes   []*actor.PID
	rounds  [3][]any
	round   int
	waiting int
	done    chan struct{}
}

func (c *conductor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case begin:
		c.done, c.round = m.done, 0
		c.ask(ctx)
	case *messages.Reserved, *messages.Committed, *messages.Started:
		if c.waiting--; c.waiting > 0 {
			return
		}
		if c.round++; c.round < len(c.rounds) {
			c.ask(ctx)
			return
		}
		close(c.done)
	}
}

func (c *conductor) ask(ctx actor.Context) {
	c.waiting = len(c.nodes)
	for i, node := range c.nodes {
		ctx.Request(node, c.rounds[c.round][i])
	}
}

// answering is a node that answers at once.
func answering(n *cabin) actor.Producer {
	reserved := samples(n)[3]
	job := actor.NewPID("scheduler", jobPath)
	return func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *messages.Reserve:
				ctx.Request(job, reserved)
			case *messages.Commit:
				ctx.Request(job, &messages.Committed{Origin: n.origin()})
			case *messages.Start:
				ctx.Request(job, &messages.Started{Origin: n.origin()})
			}
		})
	}
}

// BenchmarkLinkGang64 measures reserve, commit and start of a gang on 64 nodes, in plaintext and with TLS.
func BenchmarkLinkGang64(b *testing.B) {
	b.Run("plain", func(b *testing.B) { linkGang64(b, nil, nil) })
	b.Run("tls", func(b *testing.B) {
		by, dials := secured(b)
		linkGang64(b, by.Credentials(), dials)
	})
}

// secured returns the credentials of a scheduler and of nodes, which share one certificate here.
func secured(tb testing.TB) (by *authn.Authenticator, dials credentials.TransportCredentials) {
	tb.Helper()
	pair, err := identity.NewRoot("bench", time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	root := &identity.Folder{Roots: pair.Chain, Pair: pair}
	folder, err := root.Certify(identity.RoleScheduler, "s1", time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	folder.Dir = tb.TempDir()
	machine, err := folder.Certify(identity.RoleNode, "n1", time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	machine.Dir = filepath.Join(folder.Dir, "n1")
	if err := machine.Create(); err != nil {
		tb.Fatal(err)
	}
	allowed := authn.DefaultAllowance()
	allowed.Connections.Each = 1 << 16 // one certificate serves all nodes here
	by, err = authn.New(authn.Options{Folder: folder, Allowed: allowed})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(by.Close)
	badge, err := credential.OpenBadge(machine.Dir, identity.RoleNode)
	if err != nil {
		tb.Fatal(err)
	}
	return by, badge.Credentials(nil)
}

func linkGang64(b *testing.B, serves, dials credentials.TransportCredentials) {
	h := newHall(b, Options{Credentials: serves})
	gang := rehearse(b, h, 64, func(int) credentials.TransportCredentials { return dials })
	var took []time.Duration
	cpu := processTime(b)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		<-gang()
		took = append(took, time.Since(began))
	}
	b.ReportMetric(float64(processTime(b)-cpu)/1e6/float64(len(took)), "cpu-ms/op") // independent of other load
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	if full := h.of(countFull) + h.of(countNoLink); full > 0 {
		b.Errorf("%d messages were dropped", full)
	}
}

// rehearse creates a conductor and nodes that answer it, each with its own credentials. The function gang runs one gang
// through all rounds.
func rehearse(
	tb testing.TB, h *hall, machines int, dials func(i int) credentials.TransportCredentials,
) (gang func() <-chan struct{}) {
	tb.Helper()
	c := &conductor{}
	meet := &messages.Rendezvous{Address: "10.0.0.1", Port: 20000}
	for i := range machines {
		o := machineOptions(fmt.Sprintf("n%03d", i), fmt.Sprintf("m%03d", i), h.address)
		o.Credentials = dials(i)
		n := &cabin{tb: tb, o: o, system: newSystem()}
		n.client = Dial(n.system, o)
		tb.Cleanup(n.client.Close)
		props := actor.PropsFromProducer(answering(n), actor.WithMailbox(Mailbox))
		if _, err := n.system.Root.SpawnNamed(props, actors.NodePath); err != nil {
			tb.Fatal(err)
		}
		n.linked(h)
		peer := &messages.Peer{Rank: int32(i), Node: string(o.Node), Address: "10.0.0.1", Rack: "r01"}
		meet.Peers = append(meet.Peers, peer)
		c.nodes = append(c.nodes, h.server.Node(topology.NodeID(o.Node)))
		s := samples(n)
		start := s[20].(*messages.Start)
		start.Rendezvous = meet
		c.rounds[0] = append(c.rounds[0], s[17])
		c.rounds[1] = append(c.rounds[1], s[19])
		c.rounds[2] = append(c.rounds[2], start)
	}
	h.system.Root.Stop(actor.NewPID("scheduler", jobPath))
	eventually(tb, "the ear has gone", func() bool { _, ok := h.system.ProcessRegistry.GetLocal(jobPath); return !ok })
	props := actor.PropsFromProducer(func() actor.Actor { return c }, actor.WithMailbox(Mailbox))
	conduct, err := h.system.Root.SpawnNamed(props, jobPath)
	if err != nil {
		tb.Fatal(err)
	}
	return func() <-chan struct{} {
		done := make(chan struct{})
		h.system.Root.Send(conduct, begin{done})
		return done
	}
}

// processTime returns the CPU time of this process.
func processTime(tb testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkLinkBeat measures a heartbeat and its acknowledgement: two small frames, like most.
func BenchmarkLinkBeat(b *testing.B) {
	h, n := pair(b)
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		works(b, h, n, seq)
	}
}

// BenchmarkLinkLogs measures a frame of 256 KiB, which gRPC receives in pieces.
func BenchmarkLinkLogs(b *testing.B) {
	h, n := pair(b)
	logs := samples(n)[12].(*messages.TaskLogs)
	logs.Data = make([]byte, 256<<10)
	b.SetBytes(int64(len(logs.Data)))
	b.ReportAllocs()
	for b.Loop() {
		n.system.Root.Send(actor.NewPID("scheduler", logsPath), logs)
		hearsType[*messages.TaskLogs](b, h.ears)
	}
}
