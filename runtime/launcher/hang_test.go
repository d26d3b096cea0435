package launcher_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/hang"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the detection of hangs with real processes: gangs of four ranks that exchange data in every step. One
// rank stops, or all of them pause for a good reason. The floor is a tenth of the default.

var (
	hangGangs  = flag.Int("hangs", 4, "how many gangs TestHangs lets hang; 200 for its figures")
	cleanGangs = flag.Int("clean", 4, "how many gangs TestNoHang runs; 500 for its figures")
	atOnce     = flag.Int("at-once", 25, "how many of these gangs run at once")
	hangFloor  = flag.Duration("floor", 3*time.Second, "the shortest time that counts as a hang; 6s for the figures")
)

const gangRanks = 4

// trainer is one rank. Rank 0 collects a byte from every rank and then sends one to every rank.
const trainer = `
import json, os, random, signal, socket, sys, threading, time
home, rank, victim, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
delay, pause, seed = float(sys.argv[5]), float(sys.argv[6]), int(sys.argv[7])
drawn, port = random.Random(seed * 10 + rank), home + "/port"
def mark():
    open("hung", "w").close()
def meet():
    if rank == 0:
        s = socket.create_server(("127.0.0.1", 0), backlog=8)
        with open(port + ".new", "w") as f:
            f.write(str(s.getsockname()[1]))
        os.rename(port + ".new", port)
        return [s.accept()[0] for _ in range(3)]
    while not os.path.exists(port):
        time.sleep(0.05)
    return [socket.create_connection(("127.0.0.1", int(open(port).read())))]
def get(s):
    if not s.recv(1):
        sys.exit(3)
def collect():
    if rank == 0:
        for s in peers:
            get(s)
        for s in peers:
            s.sendall(b"x")
    else:
        peers[0].sendall(b"x")
        if mode == "unread" and time.monotonic() > at and rank == victim:
            stuck()
        get(peers[0])
def stuck():
    mark()
    if mode == "sleep":
        time.sleep(3600)
    if mode == "unread":
        s = socket.create_server(("127.0.0.1", 0))
        mine = socket.create_connection(s.getsockname())
        mine.recv(1)
    a, b = threading.Lock(), threading.Lock()
    def take(x, y):
        with x:
            time.sleep(0.1)
            y.acquire()
    both = [threading.Thread(target=take, args=p) for p in ((a, b), (b, a))]
    [t.start() for t in both]
    [t.join() for t in both]
def freeze():
    mark()
    os.kill(os.getpid(), signal.SIGSTOP)
def rest():
    until = time.monotonic() + pause
    if mode == "checkpoint" and rank == 0:
        with open("model", "wb") as f:
            while time.monotonic() < until:
                f.seek(0)
                f.write(b"x" * 262144)
                f.flush()
                time.sleep(0.2)
    if mode == "compile" and rank == victim:
        while time.monotonic() < until:
            pass
    if mode == "announced" and rank == 0:
        tell({"step": step, "pause": "validation"})
        time.sleep(pause)
def tell(line):
    with open(os.environ["SYNAPSE_PROGRESS"], "a") as f:
        f.write(json.dumps(line) + "\n")
peers = meet()
at, step = time.monotonic() + delay, 0
if mode == "stop" and rank == victim:
    threading.Timer(delay, freeze).start()
while True:
    time.sleep(min(drawn.expovariate(2), 5) if mode == "uneven" else drawn.uniform(0.1, 0.4))
    if time.monotonic() > at:
        if mode in ("sleep", "lock") and rank == victim or mode == "unread" and rank == victim == 0:
            stuck()
        if mode != "unread":
            rest()
            at = time.monotonic() + delay
    collect()
    step += 1
    tell({"step": step, "total": 100000})
`

// gang is one gang of the test.
type gang struct {
	number int
	mode   string
	victim int32
	ranks  map[int32]*messages.TaskProgress
	stall  *messages.Stall
	found  time.Time
}

func (g *gang) id(rank int32) *messages.TaskId {
	return &messages.TaskId{Token: &messages.Token{Epoch: 3, Counter: uint64(100 + g.number)}, Rank: rank}
}

// start starts the ranks of a gang.
func (g *gang) start(r *rig, home string, delay, pause time.Duration) {
	for rank := range int32(gangRanks) {
		spec := script(fmt.Sprintf("exec python3 -SE %s/trainer.py %s/%d %d %d %s %f %f %d", home, home, g.number, rank,
			g.victim, g.mode, delay.Seconds(), pause.Seconds(), g.number))
		spec.Hang = &messages.HangSpec{FloorMs: hangFloor.Milliseconds()}
		prepare, start := prepareOf(rank, spec), startOf(rank, spec)
		prepare.Id, start.Id = g.id(rank), g.id(rank)
		r.tell(prepare)
		r.prepared(prepare.Id)
		r.tell(start)
	}
}

// prepared waits until a task is prepared.
func (r *rig) prepared(id *messages.TaskId) {
	eventually(r.t, "a task of a gang is not prepared", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.got, func(m any) bool {
			p, is := m.(*messages.TaskPrepared)
			return is && p.Id.Key() == id.Key()
		})
	})
}

// hear takes the messages of all tasks. It returns false if a task has ended.
func (r *rig) hear(gangs []*gang) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.got {
		switch m := m.(type) {
		case *messages.TaskProgress:
			gangs[int(m.Id.Token.Counter)-100-gangs[0].number].ranks[m.Id.Rank] = m
		case *messages.TaskGone:
			r.t.Errorf("rank %d of gang %d has ended: %v", m.Id.Rank, m.Id.Token.Counter-100, m.Exit)
			return false
		}
	}
	r.got = nil
	return true
}

// judge decides as the scheduler does.
func (g *gang) judge() {
	c := hang.Case{Tasks: gangRanks, Floor: *hangFloor}
	now := clock.BootNs()
	lasted := func(since int64) time.Duration {
		if since == 0 {
			return 0
		}
		return time.Duration(now - since)
	}
	for rank := range int32(gangRanks) {
		s := g.ranks[rank].GetState()
		switch {
		case s == nil:
		case !s.Late && s.QuietNs == 0:
			c.Active++
			if s.Reports {
				c.OnTime++
			}
		default:
			c.Ranks = append(c.Ranks, hang.Rank{Rank: rank, Node: "n1", Step: s.Step, Reports: s.Reports, Late: s.Late,
				Silent: lasted(s.ChangedNs), Busy: s.QuietNs == 0, Quiet: lasted(s.QuietNs), Pause: s.Pause, Wait: s.Wait,
				Call: s.Call, Unread: s.UnreadBytes})
		}
	}
	if f, hangs := hang.Judge(c); hangs && (g.stall == nil || g.stall.Rank < 0) {
		g.stall, g.found = hang.Describe(c, f, time.Now().UnixMilli()), time.Now()
	}
}

// playGangs runs gangs of the modes until enough returns true for all of them, or the time is over.
func playGangs(t *testing.T, first, n int, modes []string, end func() time.Time, enough func(*gang) bool,
	judged func(*rig, *gang)) {
	able.Need(t, able.Program("python3"))
	home := room(t)
	if err := os.WriteFile(filepath.Join(home, "trainer.py"), []byte(trainer), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, room(t), nil)
	var gangs []*gang
	for i := first; i < first+n; i++ {
		drawn := rand.New(rand.NewPCG(uint64(i), 55))
		g := &gang{number: i, mode: modes[i%len(modes)], victim: drawn.Int32N(gangRanks),
			ranks: map[int32]*messages.TaskProgress{}}
		own := filepath.Join(home, fmt.Sprint(i)) // for all users, whatever the umask
		if err := errors.Join(os.Mkdir(own, 0o777), os.Chmod(own, 0o777)); err != nil {
			t.Fatal(err)
		}
		gangs = append(gangs, g)
		span := func(from, to time.Duration) time.Duration { return from + time.Duration(drawn.Int64N(int64(to-from))) }
		g.start(r, home, span(*hangFloor, 2**hangFloor), span(*hangFloor, 2**hangFloor))
	}
	for until := end(); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if !r.hear(gangs) {
			break
		}
		left := 0
		for _, g := range gangs {
			g.judge()
			if !enough(g) {
				left++
			}
		}
		if left == 0 {
			break
		}
	}
	for _, g := range gangs {
		judged(r, g)
		for rank := range int32(gangRanks) {
			r.tell(&messages.StopTask{Id: g.id(rank), Signal: 9})
		}
	}
	r.mu.Lock()
	r.got = nil
	r.mu.Unlock()
}

// inBatches calls do with the first number and the size of each batch.
func inBatches(n int, do func(first, size int)) {
	for first := 0; first < n; first += *atOnce {
		do(first, min(*atOnce, n-first))
	}
}

// score counts the hangs of TestHangs.
type score struct {
	named, soon, late int
	longest           time.Duration
}

// note compares the finding about a gang with the rank that stopped.
func (s *score) note(r *rig, g *gang) {
	of := func(dir, name string) string { return filepath.Join(r.dir, dir, g.id(g.victim).Key().String(), name) }
	since, err := os.Stat(of("scratch", "hung"))
	switch {
	case err != nil:
		r.t.Errorf("gang %d (%s): rank %d never stopped: %v", g.number, g.mode, g.victim, err)
		return
	case g.stall == nil || g.stall.Rank < 0:
		r.t.Logf("gang %d (%s): rank %d is not named: %v", g.number, g.mode, g.victim, g.stall)
		s.late++
		return
	case g.stall.Rank != g.victim:
		r.t.Errorf("gang %d (%s): %q, but rank %d stopped", g.number, g.mode, g.stall.Text, g.victim)
		return
	}
	took := g.found.Sub(since.ModTime())
	s.named, s.longest = s.named+1, max(s.longest, took)
	if took <= 2**hangFloor {
		s.soon++
	} else {
		r.t.Logf("gang %d (%s): named after %v", g.number, g.mode, took)
	}
	if took > pace.Of(2**hangFloor) {
		s.late++
	}
	stacks, err := os.ReadFile(of("tasks", "stacks"))
	if err != nil || !strings.Contains(string(stacks), "python3") || !strings.Contains(string(stacks), "thread ") {
		r.t.Errorf("gang %d: the stacks are %q, %v", g.number, stacks, err)
	}
}

// TestHangs checks that the rank that stopped first is named, with its stacks on disk. What the threads of another user
// wait for is unknown without SYS_PTRACE. Then only a stopped rank is certain to stand out.
func TestHangs(t *testing.T) {
	var s score
	modes := []string{"stop", "unread", "lock", "sleep"}
	if able.Strangers.Lacks() != nil {
		modes = modes[:1]
	}
	inBatches(*hangGangs, func(first, size int) {
		end := func() time.Time { return pace.Until(40 * time.Second) }
		found := func(g *gang) bool { return g.stall != nil && g.stall.Rank >= 0 }
		playGangs(t, first, size, modes, end, found, s.note)
	})
	t.Logf("%d of %d hangs named, %d of them within two floors; the longest took %v", s.named, *hangGangs, s.soon,
		s.longest)
	if s.late > *hangGangs/20 {
		t.Errorf("%d of %d hangs were not named in time", s.late, *hangGangs)
	}
}

// TestNoHang checks that checkpoints, compilations, announced pauses and uneven steps are no hangs.
func TestNoHang(t *testing.T) {
	steps, least := int64(0), int64(1<<60)
	inBatches(*cleanGangs, func(first, size int) {
		modes := []string{"checkpoint", "compile", "uneven", "announced"}
		end := func() time.Time { return time.Now().Add(5 * *hangFloor) }
		playGangs(t, first, size, modes, end, func(*gang) bool { return false }, func(_ *rig, g *gang) {
			if g.stall != nil {
				t.Errorf("gang %d (%s, rank %d): a false alarm: %s (%s)", g.number, g.mode, g.victim, g.stall.Text,
					g.stall.Why)
			}
			steps, least = steps+g.ranks[0].GetStep(), min(least, g.ranks[0].GetStep())
		})
	})
	t.Logf("%d clean gangs, %d steps, at least %d in each", *cleanGangs, steps, least)
	if least < 5 {
		t.Errorf("a gang made only %d steps", least)
	}
}
