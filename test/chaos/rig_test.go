package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/island"
	"github.com/yi-json/synapse/test/mutants/patch"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file starts the cluster: its processes, and a service manager that restarts each after its end.

const (
	schedulers  = 3
	machines    = 8
	gpusEach    = 4
	restartWait = 300 * time.Millisecond // delay of the service manager
	comeback    = 10 * time.Second       // maximum downtime of a process that is not kept down
	lastWords   = 4 << 10
)

// world is the cluster under test.
type world struct {
	t          *testing.T
	dir        string
	store      string
	database   *pgtest.Server
	restarting sync.Mutex // locked while the database restarts
	heads      []*service
	nodes      []*service
	clients    []api.SynapseClient
	networks   []*island.Island // networks of the nodes; none: everything is on loopback
	tally      tally            // counts of faults
	ends       tally            // counts of attempts by cause
	suspect    string           // the first job with an error
	random     struct {
		sync.Mutex
		*rand.Rand
	}
}

// draw returns a number below n.
func (w *world) draw(n int) int {
	w.random.Lock()
	defer w.random.Unlock()
	return w.random.IntN(n)
}

// between returns a duration in whole milliseconds.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.draw(int((most-least)/time.Millisecond)))*time.Millisecond
}

// service is a process that is restarted whenever it has ended, unless it must stay down.
type service struct {
	name string
	args []string
	log  string
	bin  string
	at   *island.Island // nil: the host's network

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: no process runs
	hold   time.Duration // delay before the next start
	ending bool
	starts int
	over   chan struct{}
}

func (s *service) run() {
	defer close(s.over)
	for {
		s.mu.Lock()
		if s.ending {
			s.mu.Unlock()
			return
		}
		cmd, err := s.start()
		s.mu.Unlock()
		if err == nil {
			_ = cmd.Wait()
		}
		s.mu.Lock()
		s.cmd = nil
		wait := s.hold + restartWait
		s.hold = 0
		s.mu.Unlock()
		time.Sleep(wait)
	}
}

// start starts the process, with its output in a file.
func (s *service) start() (*exec.Cmd, error) {
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	program, args := s.bin, s.args
	if s.at != nil {
		program, args = s.at.Within(program, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.cmd = cmd
	s.starts++
	return cmd, nil
}

// present waits for the process, which may be about to restart, and calls do with it. It reports whether that happened.
func (s *service) present(ctx context.Context, do func(*os.Process) error) bool {
	for limit := time.Now().Add(comeback); time.Now().Before(limit); wait(ctx, 20*time.Millisecond) {
		s.mu.Lock()
		done := s.cmd != nil && do(s.cmd.Process) == nil
		s.mu.Unlock()
		if done || ctx.Err() != nil {
			return done
		}
	}
	return false
}

func (s *service) signal(ctx context.Context, sig syscall.Signal) bool {
	return s.present(ctx, func(p *os.Process) error { return p.Signal(sig) })
}

// kill ends the process as a crash does, and keeps it down for a while.
func (s *service) kill(ctx context.Context, down time.Duration) bool {
	return s.present(ctx, func(p *os.Process) error {
		s.hold = down
		return p.Kill()
	})
}

func (s *service) end() {
	s.mu.Lock()
	s.ending = true
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
	}
	s.mu.Unlock()
	<-s.over
}

// said returns the end of its output.
func (s *service) said() string {
	text, _ := os.ReadFile(s.log)
	return string(text[max(0, len(text)-lastWords):])
}

// saidOf returns all lines of its output that contain one of the words.
func (s *service) saidOf(words ...string) string {
	text, _ := os.ReadFile(s.log)
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		for _, word := range words {
			if word != "" && strings.Contains(line, word) {
				kept.WriteString(line)
				break
			}
		}
	}
	return kept.String()
}

// shared lists the folders that the gangs' members write to, on every node.
var shared = []string{"marks", "devices", "broken"}

// newWorld starts a cluster.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	database := pgtest.Start(t)
	dir, err := os.MkdirTemp("", "synapse-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, database: database, tally: newTally(), ends: newTally()}
	w.random.Rand = rand.New(rand.NewPCG(seed, 1))
	t.Cleanup(w.close)
	for _, name := range append([]string{"", "bin"}, shared...) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil { // tasks may run as other users
			t.Fatal(err)
		}
	}
	w.buildHeads()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin")+"/",
		"../../cmd/synapse-node", "./member")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	w.store = database.Database(t)
	var why error
	if w.networks, why = newNetworks(t, machines); why != nil {
		t.Logf("no node is cut off in this run: %v", why)
	}
	var all []string
	for i := range schedulers {
		all = append(all, w.head(i))
	}
	for i := range machines {
		id := fmt.Sprintf("n%d", i)
		address, at := "127.0.0.1", (*island.Island)(nil)
		if w.networks != nil {
			at = w.networks[i]
			address = at.Machine
		}
		w.nodes = append(w.nodes,
			w.service(id, "synapse-node", at, "--join", strings.Join(all, ","), "--data-dir", filepath.Join(dir, id), "--id", id,
				"--topology", fmt.Sprintf("zone=a,rack=r%d", i%2), "--gpus", strconv.Itoa(gpusEach), "--cpus", "64",
				"--memory", "512Gi", "--address", address, "--allow-root"))
	}
	return w
}

// buildHeads builds the scheduler as shipped, and with a wall clock that is an hour ahead or behind. No decision may
// depend on that clock. Each takeover changes the clock, and the gangs' time limit is shorter than the difference.
func (w *world) buildHeads() {
	w.t.Helper()
	clocks, err := patch.Load("../..", "testdata/clocks")
	if err != nil || len(clocks) != schedulers-1 {
		w.t.Fatalf("%d clock patches for %d schedulers: %v", len(clocks), schedulers, err)
	}
	for i := range schedulers {
		var wrong []patch.Mutant // the first one has no change
		if i > 0 {
			wrong = clocks[i-1 : i]
			w.t.Logf("scheduler-%d: %s", i, wrong[0].Harm)
		}
		if err := patch.Build("../..", wrong, "cmd/synapse-scheduler",
			filepath.Join(w.dir, "bin", headProgram(i))); err != nil {
			w.t.Fatalf("building scheduler %d: %v", i, err)
		}
	}
}

func headProgram(i int) string { return fmt.Sprintf("synapse-scheduler-%d", i) }

// head starts a scheduler, reads its port, and keeps it on that port.
func (w *world) head(i int) string {
	w.t.Helper()
	name := fmt.Sprintf("scheduler-%d", i)
	file := filepath.Join(w.dir, name+".address")
	ours := "127.0.0.1"
	if w.networks != nil {
		ours = w.networks[0].Address // every node reaches it through its own cable
	}
	args := []string{"--store", w.store, "--data-dir", filepath.Join(w.dir, name), "--levels", "zone,rack",
		"--insecure", "--insecure", "--listen-file", file, "--listen", ours + ":0"}
	s := w.service(name, headProgram(i), nil, args...)
	limit := pace.Until(30 * time.Second)
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			address := strings.TrimSpace(string(text))
			s.mu.Lock()
			s.args = append(args[:len(args)-1:len(args)-1], address)
			s.mu.Unlock()
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { conn.Close() })
			w.heads, w.clients = append(w.heads, s), append(w.clients, api.NewSynapseClient(conn))
			return address
		}
		if time.Now().After(limit) {
			w.t.Fatalf("%s does not listen:\n%s", name, s.said())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *world) service(name, program string, at *island.Island, args ...string) *service {
	s := &service{
		name: name, args: args, at: at, bin: filepath.Join(w.dir, "bin", program), log: filepath.Join(w.dir, name+".log"),
		over: make(chan struct{}),
	}
	go s.run()
	w.t.Cleanup(s.end)
	return s
}

// close runs last, and removes the remains of killed agents.
func (w *world) close() {
	if w.t.Failed() {
		for _, s := range append(w.heads, w.nodes...) {
			w.t.Logf("last output of %s, started %d times:\n%s", s.name, s.starts, s.said())
			w.t.Logf("output of %s about job %q and its ledger:\n%s",
				s.name, w.suspect, s.saidOf(w.suspect, "ledger", "Starting Worker Node"))
		}
	}
	for limit := pace.Until(10 * time.Second); time.Now().Before(limit); {
		if killAll(w.dir) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	os.RemoveAll(w.dir)
}

// killAll kills processes that name a folder in their command line or environment, and returns their number.
func killAll(folder string) int {
	found := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, what := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join("/proc", e.Name(), what))
			if err == nil && strings.Contains(string(text), folder) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				found++
				break
			}
		}
	}
	return found
}

// ask tries a call at each scheduler in turn until one answers.
func ask[A any](w *world, call func(context.Context, api.SynapseClient) (A, error)) (answer A, err error) {
	for _, client := range w.clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		answer, err = call(ctx, client)
		cancel()
		if err == nil {
			return answer, nil
		}
	}
	return answer, err
}
