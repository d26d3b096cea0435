package link

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of which stream belongs to which node: reconnects, newer streams, clones, refusals, and the
// messages to the Scheduler about them.

// hurried shortens the waits between attempts. Their order stays.
type hurried struct{ clock.Real }

func (hurried) After(d time.Duration) <-chan time.Time { return time.After(d / 20) }

// moving is a scheduler's name whose process ends and returns elsewhere.
type moving struct{ to atomic.Pointer[string] }

func (m *moving) dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", *m.to.Load())
}

// TestReconnects checks that the same node finds a restarted scheduler again, with the same addresses.
func TestReconnects(t *testing.T) {
	first := newHall(t, Options{})
	var where moving
	where.to.Store(&first.address)
	o := machineOptions("n1", "m1", "scheduler.example:9000")
	o.Dialer, o.Clock = where.dial, hurried{}
	n := newCabin(t, o)
	first.up("n1")
	works(t, first, n, 1)
	cached := actor.NewPID("scheduler", rackPath) // a PID caches how it was reached
	n.say(cached, &messages.Heartbeat{Origin: n.origin(), Epoch: 1})
	hearsType[*messages.Heartbeat](t, first.ears)

	first.grpc.Stop() // as after a kill: the sockets close
	first.down("n1")
	n.await(t, countDown, 1)
	n.say(cached, &messages.Heartbeat{Origin: n.origin(), Epoch: 1})
	n.await(t, countNoLink, 1)

	second := newHall(t, Options{})
	where.to.Store(&second.address)
	second.up("n1")
	n.await(t, countUp, 2)
	n.say(cached, &messages.Heartbeat{Origin: n.origin(), Epoch: 2})
	hearsType[*messages.Heartbeat](t, second.ears)
	works(t, second, n, 2)
}

// TestDialsForEver checks that a node never gives up on a scheduler that was never there.
func TestDialsForEver(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := dead.Addr().String()
	dead.Close()
	var where moving
	where.to.Store(&gone)
	var tries atomic.Int64
	o := machineOptions("n1", "m1", "scheduler.example:9000")
	o.Clock = hurried{}
	o.Dialer = func(ctx context.Context, a string) (net.Conn, error) { tries.Add(1); return where.dial(ctx, a) }
	n := newCabin(t, o)
	eventually(t, "it tries again and again", func() bool { return tries.Load() >= 8 })
	h := newHall(t, Options{})
	where.to.Store(&h.address)
	h.up("n1")
	works(t, h, n, 1)
}

// TestRetriesSpread checks that the waits between attempts double up to the limit, and differ between nodes.
func TestRetriesSpread(t *testing.T) {
	for jitter, want := range map[float64]string{
		0:    "50ms 100ms 200ms 400ms 800ms 1.5s 1.5s 1.5s",
		0.99: "99.5ms 199ms 398ms 796ms 1.592s 2.985s 2.985s 2.985s",
	} {
		waits := &noting{waits: make(chan time.Duration), fire: make(chan time.Time)}
		o := machineOptions("n1", "m1", "scheduler.example:9000")
		o.Clock, o.Rand = waits, func() float64 { return jitter }
		o.Dialer = func(context.Context, string) (net.Conn, error) { return nil, context.DeadlineExceeded }
		c := Dial(newSystem(), o)
		var got []string
		for len(got) < 8 {
			d := <-waits.waits
			if d == greetTimeout {
				continue
			}
			got = append(got, d.String())
			waits.fire <- time.Time{}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("with %v: waits %s, want %s", jitter, s, want)
		}
		go func() {
			for range waits.waits {
			}
		}()
		c.Close()
		close(waits.waits)
	}
}

// noting reports every wait, and ends it on command.
type noting struct {
	clock.Real
	waits chan time.Duration
	fire  chan time.Time
}

func (n *noting) After(d time.Duration) <-chan time.Time {
	n.waits <- d
	if d == greetTimeout {
		return nil
	}
	return n.fire
}

// TestNewerStreamClosesOlder checks that a newer stream of the same node replaces the older one, which ends.
func TestNewerStreamClosesOlder(t *testing.T) {
	h := newHall(t, Options{})
	older := newStranger(t, h, machineOptions("n1", "m1"))
	h.up("n1")
	n := newCabin(t, machineOptions("n1", "m1", h.address))
	h.down("n1")
	h.up("n1")
	if _, err := older.stream.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("the older stream ends with %v", err)
	}
	works(t, h, n, 1)
	if h.of(countSuperseded) != 1 || h.of(countUp) != 2 {
		t.Errorf("%v", h.by)
	}
}

// TestNewerStreamClosesStuckOlder checks that a frozen older stream, which does not even read, is closed as well.
func TestNewerStreamClosesStuckOlder(t *testing.T) {
	h := newHall(t, Options{})
	newStranger(t, h, machineOptions("n1", "m1")) // it never reads
	h.up("n1")
	spec := &messages.JobSpec{Image: strings.Repeat("x", 1<<20)}
	commit := samples(&cabin{o: machineOptions("n1", "m1")})[19].(*messages.Commit)
	commit.Spec = spec
	for range 12 {
		h.say(h.server.Node("n1"), commit, jobPath)
	}
	eventually(t, "the queue is full", func() bool { return h.of(countFull) > 0 })
	n := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	works(t, h, n, 1)
	h.await(t, countDown, 1)
}

// TestCloneIsHeardAndPushesNobodyOut checks a clone, another machine under a known node's name. It does not displace
// the right node. It is asked for its Hello and gets the reason of its refusal.
func TestCloneIsHeardAndPushesNobodyOut(t *testing.T) {
	h := newHall(t, Options{})
	truth := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	clone := newCabin(t, machineOptions("n1", "m2", h.address))
	h.up("n1~m2")

	h.say(h.server.Node("n1~m2"), &messages.Lead{Epoch: 1, ClusterId: "c1"}, actors.SchedulerPath)
	lead := hearsType[*messages.Lead](t, clone.ears)
	clone.say(lead.sender, samples(clone)[0])
	hello := hearsType[*messages.Hello](t, h.ears)
	if want := "node-n1~m2"; hello.sender.Address != want {
		t.Errorf("the clone's Hello is to be answered at %s, want %s", hello.sender.Address, want)
	}
	h.say(hello.sender, &messages.Rejected{
		Epoch: 1, Reason: messages.RejectReason_REJECT_REASON_ANOTHER_MACHINE, Text: "node already registered",
	}, "")
	hearsType[*messages.Rejected](t, clone.ears)

	works(t, h, truth, 1)
	h.say(h.server.Node("n1"), samples(truth)[17], jobPath)
	hearsType[*messages.Reserve](t, truth.ears)
	if truth.of(countDown) != 0 || len(clone.ears) != 0 {
		t.Errorf("the right node's link broke %d times, the clone received %d more", truth.of(countDown), len(clone.ears))
	}
}

// TestNameFollowsTheWelcome checks that the name goes to the node that the leader welcomes, whichever came first.
func TestNameFollowsTheWelcome(t *testing.T) {
	h := newHall(t, Options{})
	clone := newCabin(t, machineOptions("n1", "m2", h.address))
	h.up("n1")
	truth := newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1~m1")

	h.say(h.server.Node("n1~m1"), &messages.Welcome{Epoch: 1, Incarnation: truth.o.Incarnation}, rackPath)
	hearsType[*messages.Welcome](t, truth.ears)
	h.down("n1~m1")
	h.up("n1~m2") // so the clone is asked under its second name from now on
	works(t, h, truth, 1)
	h.say(h.server.Node("n1"), samples(truth)[17], jobPath)
	hearsType[*messages.Reserve](t, truth.ears)

	// An answer to a message under the second name still arrives.
	h.say(h.server.Node("n1~m1"), samples(truth)[18], jobPath)
	hearsType[*messages.Abort](t, truth.ears)

	// The right node is away for a moment, and no other node takes its name.
	truth.client.Close()
	h.down("n1")
	h.say(h.server.Node("n1"), samples(truth)[17], jobPath)
	h.await(t, countNoLink, 1)
	newCabin(t, machineOptions("n1", "m1", h.address))
	h.up("n1")
	if len(clone.ears) != 0 {
		t.Errorf("the clone received %v", <-clone.ears)
	}
}

// TestMachinesUnderOneName checks that only a limited number of nodes may use one name.
func TestMachinesUnderOneName(t *testing.T) {
	h := newHall(t, Options{})
	for _, m := range []string{"m1", "m2", "m3", "m4"} {
		newStranger(t, h, machineOptions("n1", m))
	}
	if _, err := dialStranger(t, h, optionsOf("n1", "m5").introduction()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fifth is answered %v", err)
	}
	newStranger(t, h, machineOptions("n1", "m2")) // a reconnect of one of the four
	if h.of(countSecond) != 4 {
		t.Errorf("%v", h.by)
	}
	h.server.Close()
	if len(h.server.places) != 0 {
		t.Errorf("places are left: %v", h.server.places)
	}
}

func optionsOf(id, machine string) *Options {
	o := machineOptions(id, machine)
	return &o
}

// TestRefusedHandshakes checks that a node which does not name itself, or is too old, gets the reason of its refusal.
func TestRefusedHandshakes(t *testing.T) {
	h := newHall(t, Options{})
	for _, c := range []struct {
		key, value, words string
		code              codes.Code
	}{
		{keyNode, "", "introduction is incomplete", codes.InvalidArgument},
		{keyNode, "a/b", "introduction is incomplete", codes.InvalidArgument},
		{keyNode, "n1~m1", "introduction is incomplete", codes.InvalidArgument},
		{keyNode, strings.Repeat("n", 200), "introduction is incomplete", codes.InvalidArgument},
		{keyMachine, "", "introduction is incomplete", codes.InvalidArgument},
		{keyBoot, " ", "introduction is incomplete", codes.InvalidArgument},
		{keyIncarnation, "soon", "introduction is incomplete", codes.InvalidArgument},
		{keyProtocol, "0", "upgrade", codes.FailedPrecondition},
		{keyProtocol, "", "upgrade", codes.FailedPrecondition},
	} {
		md := optionsOf("n1", "m1").introduction()
		md.Set(c.key, c.value)
		_, err := dialStranger(t, h, md)
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.words) {
			t.Errorf("%s %q: %v", c.key, c.value, err)
		}
	}
	twice := optionsOf("n1", "m1").introduction()
	twice.Append(keyNode, "n2")
	if _, err := dialStranger(t, h, twice); status.Code(err) != codes.InvalidArgument {
		t.Errorf("two names: %v", err)
	}
	if _, err := dialStranger(t, h, metadata.MD{}); err == nil {
		t.Error("a stream without a word was taken")
	}
	newer := optionsOf("n1", "m1").introduction()
	newer.Set(keyProtocol, "2")
	if _, err := dialStranger(t, h, newer); err != nil {
		t.Errorf("a newer machine: %v", err)
	}
	if h.of(countUp) != 1 {
		t.Errorf("%v", h.by)
	}
}

// TestUnderstand checks that a node validates the scheduler's answer.
func TestUnderstand(t *testing.T) {
	good := standing{address: "scheduler-a", epoch: 4, leader: "b:9000"}
	if got, err := understand(good.metadata()); err != nil || got != good {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []metadata.MD{
		{}, standing{address: "node-n1"}.metadata(), standing{address: "schedulers"}.metadata(),
		standing{address: "scheduler-"}.metadata(), metadata.Join(good.metadata(), good.metadata()),
	} {
		if got, err := understand(bad); err == nil {
			t.Errorf("%v is taken as %v", bad, got)
		}
	}
}

// TestLeadIsToldOfStandingLinks checks that a new leader receives the links that were up before. A process that does
// not lead names the leader.
func TestLeadIsToldOfStandingLinks(t *testing.T) {
	system := newSystem()
	server := NewServer(system, Options{Address: "scheduler-b"})
	h := &hall{tb: t, system: system, server: server, ears: make(chan heard, 64)}
	serve(t, h)
	server.Follow("10.0.0.9:9000")
	o := machineOptions("n1", "m1", h.address)
	said := make(lines, 16)
	o.Log = said
	n := newCabin(t, o)
	n.await(t, countUp, 1)
	if line := <-said; !strings.Contains(line, "scheduler-b") || !strings.Contains(line, "follows 10.0.0.9:9000") {
		t.Errorf("the node logs %q", line)
	}
	server.Lead(5)
	if st := server.standing(); st.epoch != 5 || st.leader != "" {
		t.Errorf("%v", st)
	}
	for _, path := range schedulerEars { // the Scheduler is created later
		ear(system, path, func(m heard) { h.ears <- m })
	}
	h.up("n1")
	works(t, h, n, 1)
}

// lines is a log that can be read.
type lines chan string

func (l lines) Info(format string, args ...any)  { l <- fmt.Sprintf(format, args...) }
func (l lines) Warn(format string, args ...any)  { l.Info(actors.TagWarn+format, args...) }
func (l lines) Error(format string, args ...any) { l.Info(actors.TagError+format, args...) }
func (lines) Debug(string, ...any)               {}

// TestTwinNames checks that two names for one scheduler do not make its streams close each other forever.
func TestTwinNames(t *testing.T) {
	h := newHall(t, Options{})
	var where moving
	where.to.Store(&h.address)
	o := machineOptions("n1", "m1", "a:9000", "b:9000")
	o.Dialer = where.dial
	said := make(lines, 64)
	o.Log = said
	n := newCabin(t, o)
	limit := time.After(patience)
	for twin := false; !twin; {
		select {
		case line := <-said:
			twin = strings.Contains(line, "list each scheduler once")
		case <-limit:
			t.Fatal("the twin was not noticed")
		}
	}
	// From now on, one of them waits for a minute. The scheduler may be closing the other's stream because of the twin.
	// Messages on a closing stream are lost, and the next stream stays.
	seq := uint64(0)
	eventually(t, "what is said arrives", func() bool {
		seq++
		n.say(actor.NewPID(h.system.Address(), rackPath), &messages.Heartbeat{Origin: n.origin(), Epoch: 1, Seq: seq})
		select {
		case m := <-h.ears:
			_, is := m.message.(*messages.Heartbeat)
			return is
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
	works(t, h, n, seq+1)
}

// TestSeveralSchedulers checks that each of several schedulers has its own stream and its own address.
func TestSeveralSchedulers(t *testing.T) {
	a, b := newHall(t, Options{Address: "scheduler-a"}), newHall(t, Options{Address: "scheduler-b"})
	n := newCabin(t, machineOptions("n1", "m1", a.address, b.address))
	a.up("n1")
	b.up("n1")
	works(t, a, n, 1)
	works(t, b, n, 2)
	a.server.Close()
	n.await(t, countDown, 1)
	works(t, b, n, 3)
}
