package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/gateway"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests several schedulers on one database: the effects on gangs and clients when the leader dies, freezes,
// stops, or loses its database.

// Number and duration of the usual run. Larger values give better figures.
var (
	failovers = flag.Int("e2e.failovers", 3, "how often the leader is killed")
	dbAway    = flag.Duration("e2e.away", 20*time.Second, "for how long the database is away")
)

const (
	seats = 3
	// admission is the maximum time between a leader's death and the next gang's start.
	admission = 5 * time.Second
)

// council is a cluster with several schedulers.
type council struct {
	*cluster
	database *pgtest.Server
	store    string
	members  [seats]member
}

// member is one seat, with the process that has its address now.
type member struct {
	*process
	address string
	client  api.SynapseClient
}

func newCouncil(t *testing.T) *council {
	t.Helper()
	c := emptyCouncil(t)
	for i := range c.members {
		c.seat(i)
		c.await(i)
	}
	c.seated()
	leads, _ := c.leader()
	for i, m := range c.members { // a new process does not know the leader yet
		if i != leads {
			m.hears(t, "Standing by: "+c.members[leads].address+" leads")
		}
	}
	return c
}

// emptyCouncil has a database and no scheduler yet.
func emptyCouncil(t *testing.T) *council {
	t.Helper()
	everywhere(t)
	t.Parallel()
	database := pgtest.Start(t)
	dir, err := os.MkdirTemp("", "synapse-e2e-council-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killAll(dir) // a task outlives its agent
		os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &council{cluster: &cluster{t: t, dir: dir}, database: database, store: database.Database(t)}
	for i := range c.members {
		c.members[i].address = "127.0.0.1:0"
	}
	return c
}

// seated configures the nodes with the addresses of all seats.
func (c *council) seated() {
	var all []string
	for _, m := range c.members {
		all = append(all, m.address)
	}
	c.address = strings.Join(all, ",")
}

// seat starts a scheduler at a seat's address, as a service manager would.
func (c *council) seat(i int) {
	c.t.Helper()
	os.Remove(c.addressFile(i))
	c.members[i].process = launch(c.t, fmt.Sprintf("scheduler-%d", i), "synapse-scheduler", c.seatArgs(i)...)
}

func (c *council) seatArgs(i int) []string {
	return []string{
		"--listen", c.members[i].address, "--listen-file", c.addressFile(i), "--store", c.store, "--levels", "zone,rack",
		"--data-dir", filepath.Join(c.dir, fmt.Sprintf("scheduler-%d", i)),
	}
}

func (c *council) addressFile(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("address-%d", i))
}

// await waits until a seat's scheduler listens.
func (c *council) await(i int) {
	c.t.Helper()
	m := &c.members[i]
	for limit := pace.Until(10 * time.Second); time.Now().Before(limit); {
		if text, err := os.ReadFile(c.addressFile(i)); err == nil {
			m.address = strings.TrimSpace(string(text))
			conn, err := grpc.NewClient(m.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				c.t.Fatal(err)
			}
			c.t.Cleanup(func() { conn.Close() })
			m.client = api.NewSynapseClient(conn)
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	c.t.Fatalf("scheduler %d does not listen:\n%s", i, m.said())
}

// leader queries all schedulers until one reports that it leads, and makes its client that of the cluster.
func (c *council) leader() (int, uint64) {
	c.t.Helper()
	limit := time.Now().Add(patience)
	for time.Now().Before(limit) {
		for i := range c.members {
			if c.members[i].client == nil {
				continue // no process at this seat yet
			}
			ctx, cancel := context.WithTimeout(c.t.Context(), 300*time.Millisecond)
			reply, err := c.members[i].client.Cluster(ctx, &api.Cluster{})
			cancel()
			if err == nil {
				c.client = c.members[i].client
				return i, reply.Epoch
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("no scheduler leads within %s", patience)
	return 0, 0
}

// admitted submits through any scheduler until a gang runs, and returns how long that took.
func (c *council) admitted(spec *messages.JobSpec, within time.Duration) (id string, took time.Duration) {
	c.t.Helper()
	within = pace.Of(within)
	began := time.Now()
	c.requests++
	request := &messages.Submit{RequestId: fmt.Sprintf("r-%d", c.requests), Spec: spec, AllowInfeasible: true}
	for time.Since(began) < within {
		for i := range c.members {
			ctx, cancel := context.WithTimeout(c.t.Context(), pace.Of(500*time.Millisecond))
			client := c.members[i].client
			// a repeated submit gets the same answer
			if reply, err := client.Submit(ctx, request); err == nil {
				id = reply.Job
				status, err := client.GetJob(ctx, &messages.GetJob{Job: id})
				if err == nil && status.Job.Attempt != nil && (status.Job.Phase == "running" || status.Job.Phase == "succeeded") {
					cancel()
					c.client = client
					return id, time.Since(began)
				}
			}
			cancel()
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("no gang ran within %s (job %q)", within, id)
	return "", 0
}

// ends waits until a scheduler ends by itself, and checks its code and its last words.
func (c *council) ends(i int, within time.Duration, code int, words string) {
	c.t.Helper()
	m := c.members[i]
	select {
	case <-m.ended:
	case <-time.After(within):
		c.t.Fatalf("scheduler %d did not end within %s:\n%s", i, within, m.said())
	}
	limit := pace.Until(2 * time.Second) // the last line may still be on its way through the pipe
	for !strings.Contains(m.said(), words) && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
	}
	if got := m.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(m.said(), words) {
		c.t.Errorf("scheduler %d ended with %d, want %d and %q:\n%s", i, got, code, words, m.said())
	}
}

// witness returns a gang whose members each record their start.
func witness(t *testing.T, tasks int32, gpus float64, then string) (spec *messages.JobSpec, starts func() int) {
	t.Helper()
	out := t.TempDir()
	spec = writing(t, out, gang(tasks, gpus, fmt.Sprintf("echo $SYNAPSE_ATTEMPT >> %s/$SYNAPSE_RANK; %s", out, then)))
	return spec, func() int {
		n := 0
		for rank := range tasks {
			text, _ := os.ReadFile(filepath.Join(out, fmt.Sprint(rank)))
			n += strings.Count(string(text), "\n")
		}
		return n
	}
}

// TestSeveralSchedulers checks that one gang runs through all changes of leaders.
func TestSeveralSchedulers(t *testing.T) {
	c := newCouncil(t)
	c.node("n1", "r1")
	n2 := c.node("n2", "r1")
	c.leader()
	spec, starts := witness(t, 2, 4, "exec sleep 600")
	long := c.submit(spec)
	c.cluster.await(long, "running")
	intact := func(t *testing.T, after string) {
		t.Helper()
		c.cluster.await(long, "running") // a new leader shows it as starting until its nodes have reported
		if s := c.job(long); s.Phase != "running" || s.Record.Runs != 1 || starts() != 2 {
			t.Fatalf("%s the gang is %s after %d attempts and %d starts: %s", after, s.Phase, s.Record.Runs, starts(), s.Reason)
		}
	}
	for _, part := range []struct {
		name string
		try  func(*testing.T, *council)
	}{
		{"standing by", func(t *testing.T, c *council) { standby(t, c, n2) }},
		{"killed", killed},
		{"told to end", toldToEnd},
		{"frozen", frozen},
		{"database away", databaseAway},
	} {
		t.Log(part.name)
		part.try(t, c)
		c.leader()
		intact(t, part.name+":")
	}
}

// standby checks that a scheduler that does not lead names the leader to clients and nodes.
func standby(t *testing.T, c *council, n *process) {
	leads, _ := c.leader()
	at := c.members[leads].address
	for i, m := range c.members {
		if i == leads {
			continue
		}
		var trailer metadata.MD
		_, err := m.client.Submit(c.ctx(), &messages.Submit{RequestId: "to-a-standby", Spec: gang(1, 1, "true")},
			grpc.Trailer(&trailer))
		if got := api.OutcomeOf(err); got.GetCode() != messages.Code_CODE_UNAVAILABLE ||
			!strings.Contains(got.GetHint(), at) {
			t.Errorf("a standby answers %v, but %s leads", err, at)
		}
		if got := trailer.Get(gateway.LeaderTrailer); len(got) != 1 || got[0] != at {
			t.Errorf("a standby's trailer names %v, but %s leads", got, at)
		}
		if said := m.said(); !strings.Contains(said, "Standing by: "+at+" leads (epoch 1)") {
			t.Errorf("a standby said:\n%s", said)
		}
	}
	if said := n.said(); strings.Count(said, "which follows "+at) != seats-1 ||
		!strings.Contains(said, "at "+at+", which leads (epoch 1)") {
		t.Errorf("a machine said:\n%s", said)
	}
}

// killed checks that a gang that is submitted to another scheduler runs within five seconds.
func killed(t *testing.T, c *council) {
	var all []time.Duration
	defer func() { t.Logf("kill -9 of the leader, %d times: %s", len(all), spread(all)) }()
	for range *failovers {
		inTime(t, "the next gang after the leader was killed", admission, func() time.Duration {
			took := killOne(t, c)
			all = append(all, took)
			return took
		})
	}
}

func killOne(t *testing.T, c *council) time.Duration {
	leads, epoch := c.leader()
	c.members[leads].kill()
	spec, starts := witness(t, 2, 1, "exit 0")
	id, took := c.admitted(spec, 3*admission)
	c.cluster.await(id, "succeeded")
	if n := starts(); n != 2 {
		t.Errorf("its two members started %d times", n)
	}
	if next, now := c.leader(); next == leads || now != epoch+1 {
		t.Errorf("scheduler %d leads under epoch %d, after %d under %d", next, now, leads, epoch)
	}
	c.seat(leads)
	c.await(leads)
	return took
}

// toldToEnd checks that a leader that stops in order causes no delay.
func toldToEnd(t *testing.T, c *council) {
	inTime(t, "another one's lead after SIGTERM", time.Second, func() time.Duration {
		leads, _ := c.leader()
		began := time.Now()
		c.members[leads].signal(syscall.SIGTERM)
		for now := leads; now == leads; now, _ = c.leader() {
		}
		took := time.Since(began)
		t.Logf("SIGTERM: another one led after %s", took.Round(time.Millisecond))
		c.ends(leads, 15*time.Second, 0, "terminated: stopping")
		c.seat(leads)
		c.await(leads)
		return took
	})
}

// frozen checks that a leader that slept through its lease ends, and decides nothing more.
func frozen(t *testing.T, c *council) {
	var all []time.Duration
	for range max(1, *failovers/4) {
		all = append(all, freezeOne(t, c))
	}
	t.Logf("SIGSTOP of the leader, %d times: %s", len(all), spread(all))
}

func freezeOne(t *testing.T, c *council) time.Duration {
	leads, _ := c.leader()
	c.members[leads].signal(syscall.SIGSTOP)
	spec, starts := witness(t, 2, 1, "sleep 3")
	id, took := c.admitted(spec, 12*time.Second)
	woken := time.Now()
	c.members[leads].signal(syscall.SIGCONT)
	c.ends(leads, 15*time.Second, 1, "this scheduler no longer leads")
	t.Logf("the frozen leader ended %s after it continued", time.Since(woken).Round(time.Millisecond))
	s := c.cluster.await(id, "succeeded")
	if n := starts(); n != 2 || s.Record.Runs != 1 {
		t.Errorf("its two members started %d times in %d attempts", n, s.Record.Runs)
	}
	c.seat(leads)
	c.await(leads)
	return took
}

// databaseAway checks that nothing new is decided without the database, that running jobs are untouched, and that all
// recovers soon after its return.
func databaseAway(t *testing.T, c *council) {
	inTime(t, "the next gang after the database was back", admission, func() time.Duration { return awayOnce(t, c) })
}

func awayOnce(t *testing.T, c *council) time.Duration {
	leads, _ := c.leader()
	load := c.load(t, 16)
	if err := c.database.Stop(); err != nil {
		t.Fatal(err)
	}
	back := time.Now().Add(*dbAway)
	c.ends(leads, 5*time.Second, 1, "the lease could not be renewed in time")
	c.seat(leads) // it waits for the database, and must not give up
	time.Sleep(time.Until(back))
	for i := range c.members {
		select {
		case <-c.members[i].ended:
			t.Errorf("scheduler %d ended while the database was away:\n%s", i, c.members[i].said())
		default:
		}
	}
	if err := c.database.Run(); err != nil {
		t.Fatal(err)
	}
	spec, starts := witness(t, 2, 1, "exit 0")
	spec.Priority = 10 // the others still wait
	id, took := c.admitted(spec, 3*admission)
	t.Logf("database away for %s: the next gang ran %s after it was back", *dbAway, took.Round(time.Millisecond))
	c.cluster.await(id, "succeeded")
	if n := starts(); n != 2 {
		t.Errorf("its two members started %d times", n)
	}
	for id, starts := range load { //order: all must be well
		if s := c.cluster.await(id, "succeeded"); s.Record.Runs != 1 || starts() != 2 {
			t.Errorf("gang %s needed %d attempts, and its two members started %d times", id, s.Record.Runs, starts())
		}
	}
	c.await(leads)
	return took
}

// load submits gangs, of which some run and the others wait.
func (c *council) load(t *testing.T, gangs int) map[string]func() int {
	t.Helper()
	all := map[string]func() int{}
	for range gangs {
		spec, starts := witness(t, 2, 1, "exec sleep 2")
		all[c.submit(spec)] = starts
	}
	return all
}
