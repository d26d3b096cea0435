package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests one owner's mistakes next to the jobs of another owner.

// ownersScheduler accepts the name that a caller gives. Without identities all callers have one name.
var ownersScheduler = overlaid("owners", "synapse-scheduler")

// mistakes lists the ways in which a job can name something that a node lacks or forbids.
var mistakes = []struct {
	name string
	make func(*messages.JobSpec, string)
}{
	{"image", func(s *messages.JobSpec, n string) { s.Image = "/no/such/image-" + n }},
	{"archive", func(s *messages.JobSpec, n string) { s.Image = "/no/such/image-" + n + ".tar" }},
	{"a file for an image", func(s *messages.JobSpec, n string) { s.Image = "/etc/passwd" }},
	{"user", func(s *messages.JobSpec, n string) { s.User = "nosuch" + n }},
	{"group", func(s *messages.JobSpec, n string) { s.User = "nobody:nosuch" + n }},
	{"source", func(s *messages.JobSpec, n string) {
		s.Mounts = []*messages.Mount{{Source: "/no/such/source-" + n, Target: "/data"}}
	}},
	{"forbidden source", func(s *messages.JobSpec, n string) {
		s.Mounts = []*messages.Mount{{Source: "/proc/self", Target: "/data" + n}}
	}},
	{"target", func(s *messages.JobSpec, n string) {
		s.Mounts = []*messages.Mount{{Source: "/tmp", Target: "/etc/passwd/" + n}}
	}},
	{"workdir", func(s *messages.JobSpec, n string) { s.Workdir = "/etc/passwd/" + n }},
	{"command", func(s *messages.JobSpec, n string) { s.Command = []string{"/no/such/program-" + n} }},
}

// TestHundredMistakes submits one owner's hundred jobs with one mistake each. They must end. No node may become
// unschedulable or backed off for it, and another owner's jobs must start as without them.
func TestHundredMistakes(t *testing.T) {
	everywhere(t)
	t.Parallel()
	for _, driver := range []string{"process", "carapace", "oci"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			needDriver(t, driver)
			program, err := ownersScheduler()
			if err != nil {
				t.Fatal(err)
			}
			c := newClusterOf(t, program)
			c.contain(driver)
			besideMistakes(t, c)
		})
	}
}

func besideMistakes(t *testing.T, c *cluster) {
	for _, id := range []string{"n1", "n2"} {
		c.node(id, "r1")
	}
	before := c.strangersWait("before")
	var wrong []string
	for i := range 100 {
		spec, m := gang(1, 0, "exit 0"), mistakes[i%len(mistakes)]
		spec.Name, spec.Each.MilliCpu = fmt.Sprintf("mistaken-%d", i), 100
		m.make(spec, fmt.Sprint(i))
		reply, err := c.client.Submit(as("mallory"), &messages.Submit{RequestId: fmt.Sprintf("m-%d", i), Spec: spec})
		if err != nil {
			t.Logf("%s is rejected at once: %v", m.name, err)
			continue
		}
		wrong = append(wrong, reply.Job)
	}
	if len(wrong) < 50 {
		t.Fatalf("only %d jobs were accepted", len(wrong))
	}
	// A backoff would affect several tries in a row. A single slow try occurs on a busy host.
	var lately [3]time.Duration
	longest := time.Duration(0)
	for limit := pace.Until(2 * time.Minute); len(wrong) > 0; {
		lately = [...]time.Duration{lately[1], lately[2], c.strangersWait("beside")}
		longest = max(longest, slices.Min(lately[:]))
		for _, id := range []string{"n1", "n2"} {
			if m := c.machine(id); m.Closed != "" {
				t.Fatalf("%s is closed: %s", id, m.Closed)
			}
		}
		for len(wrong) > 0 && c.job(wrong[0]).Record.State > messages.JobState_JOB_STATE_ACTIVE {
			wrong = wrong[1:]
		}
		if time.Now().After(limit) {
			t.Fatalf("%d jobs have not ended, the first: %v", len(wrong), c.job(wrong[0]))
		}
	}
	t.Logf("the other owner's gang had its nodes %s after its submit, and three in a row at most %s next to a hundred "+
		"mistakes", before, longest)
	if longest > before+2*time.Second { // less than any backoff
		t.Errorf("the other owner's gang waited because of the mistakes")
	}
}

// strangersWait returns how long another owner's gang of both nodes waits for them, in one try. The start time of
// containers on a busy host does not count.
func (c *cluster) strangersWait(name string) time.Duration {
	c.t.Helper()
	spec := gang(2, 8, "exit 0")
	spec.Name = name
	reply, err := c.client.Submit(as("stranger"), &messages.Submit{Spec: spec})
	if err != nil {
		c.t.Fatal(err)
	}
	s := c.await(reply.Job, "succeeded")
	if s.Record.Runs != 1 || s.Record.Owner.Name != "stranger" {
		c.t.Errorf("the other owner's gang: attempt %d, of %s", s.Record.Runs, s.Record.Owner.Name)
	}
	return time.Duration(s.Attempt.CommittedUnixMs-s.Record.SubmittedUnixMs) * time.Millisecond
}

func as(owner string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "owner", owner)
}

// TestBrokenMachineCloses checks that in a cluster with one owner, a node on which nothing can start becomes
// unschedulable, states why, and its jobs run on another node.
func TestBrokenMachineCloses(t *testing.T) {
	needDriver(t, "carapace")
	c := newCluster(t)
	c.contain("carapace")
	broken := filepath.Join(c.dir, "carapace")
	if err := os.Link(filepath.Join(bin, "carapace"), broken); err != nil {
		t.Fatal(err)
	}
	c.node("n1", "r1")
	c.node("n2", "r1", "--carapace", broken)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	closed := ""
	for i := 0; closed == ""; i++ {
		if i == 40 {
			t.Fatalf("n2 is still schedulable: %v", c.machine("n2"))
		}
		one, other := c.submit(gang(1, 8, "exit 0")), c.submit(gang(1, 8, "exit 0")) // each needs a whole node
		c.await(one, "succeeded")
		c.await(other, "succeeded")
		closed = c.machine("n2").Closed
	}
	if m := c.machine("n1"); m.Closed != "" {
		t.Errorf("n1 is closed: %s", m.Closed)
	}
	t.Logf("n2 is closed: %s", closed)
}

// TestCauseAtOnce checks that the reason of a job with a mistake is shown from the first failure on, in the list, by
// explain and by squeue, while it is retried.
func TestCauseAtOnce(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	told := 0
	for i, m := range mistakes {
		if !slices.Contains([]string{"image", "user", "source"}, m.name) {
			continue // after more failures the only node is cordoned, and no job is tried any more
		}
		spec := gang(1, 0, "exit 0")
		spec.Name, spec.Each.MilliCpu = fmt.Sprintf("mistaken-%d", i), 100
		m.make(spec, fmt.Sprint(i))
		reply, err := c.client.Submit(t.Context(), &messages.Submit{RequestId: fmt.Sprintf("c-%d", i), Spec: spec})
		if err != nil {
			continue // it is rejected at once
		}
		s := c.until(reply.Job, "tried", func(s *messages.JobStatus) bool {
			return s.Record.State.Terminal() || s.Phase == "queued" && s.Attempt.GetEnd() != nil
		})
		cause := messages.StartFailure(s)
		if s.Record.State.Terminal() {
			continue // no other try could end otherwise, and its outcome states why
		}
		told++
		if cause == "" {
			t.Fatalf("%s: no cause is shown: %v", m.name, s)
		}
		_, words, _ := strings.Cut(cause, ": ")
		for where, args := range map[string][]string{
			"the list": {"get", "jobs"}, "explain": {"explain", reply.Job},
			"squeue": {"slurm", "squeue", "-j", messages.NumericID(reply.Job)},
		} {
			text, words := "", words
			if where == "the list" { // the list shows only the beginning
				words = words[:min(len(words), 16)]
			}
			// it may be in another attempt just now
			for limit := time.Now().Add(patience); !strings.Contains(text, words); {
				if text = c.cli(args...).out; time.Now().After(limit) || c.job(reply.Job).Record.State.Terminal() {
					break
				}
			}
			if !strings.Contains(text, words) && !c.job(reply.Job).Record.State.Terminal() {
				t.Errorf("%s: %s does not show %q:\n%s", m.name, where, words, text)
			}
		}
	}
	if told != 3 {
		t.Errorf("only %d jobs were retried", told)
	}
}
