package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests restarts in place with real processes.

// flaky is a task whose rank 1 fails in the first two attempts. Each task finds the files of the attempt before in its
// scratch directory.
const flaky = `cd "$TMPDIR"; n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count
	echo "attempt $SYNAPSE_RUN finds $n"
	echo "generation ${SYNAPSE_GENERATION:-0}, rank ${SYNAPSE_RESTART_RANK:-none}"
	[ "$n" -lt 2 ] && [ "$SYNAPSE_RANK" = 1 ] && sleep 0.3 && exit 3
	[ "$n" -lt 2 ] && { trap 'exit 0' TERM; while :; do sleep 0.02; done; }
	exit 0`

// TestInPlace checks that a gang on two nodes restarts in place twice, with the same devices and files, while another
// job waits for the nodes. The job ends as succeeded, and its page names the restarts and their cost.
func TestInPlace(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "2", "--gpus", "4")
	c.node("n2", "r1", "--cpus", "2", "--gpus", "4")
	id := c.order(flaky, "--replicas", "2", "--gpus-per-task", "4", "--cpu", "2", "--restarts", "3", "--in-place",
		"--backoff", "200ms", "--grace", "1s")
	c.await(id, "running")
	rival := c.order("exit 0", "--replicas", "2", "--gpus-per-task", "4", "--cpu", "2")
	job := c.await(id, "succeeded")
	if runs := job.GetRecord().GetRuns(); runs != 3 {
		t.Errorf("it had %d attempts", runs)
	}
	a := job.GetAttempt()
	if h := a.GetInherited(); h.GetGeneration() != 2 || h.GetRank() != 1 || a.GetStoppingMs() == 0 {
		t.Errorf("the last attempt is %v", a)
	}
	t.Logf("stopped in %d ms, prepared in %d ms, started %d ms after COMMIT", a.GetStoppingMs(), a.GetPreparingMs(),
		a.GetStartedUnixMs()-a.GetCommittedUnixMs())
	out := c.logs(id)
	for _, want := range []string{"attempt 3 finds 2", "generation 2, rank 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	c.cli("describe", "job", id).wants(t, 0, "In Place:", "")
	c.cli("describe", "job", id).wants(t, 0, "restart 2, because rank 1 on n", "")
	c.cli("describe", "job", id).wants(t, 0, "  stopped in ", "") // a line of the attempt before
	c.cli("history", "-o", "json").wants(t, 0, `"restartedInPlace"`, "")
	c.cli("get", "jobs", "-o", "json").wants(t, 0, `"restartedInPlace"`, "")
	if after := c.await(rival, "succeeded").GetAttempt().GetStartedUnixMs(); after < a.GetStartedUnixMs() {
		t.Error("the other job got the nodes in between")
	}
	c.cli("submit", "--image", "host", "--in-place", "--", "true").wants(t, 2, "",
		"--in-place: needs a restart limit of at least 1")
}

var (
	inPlaceRanks  = flag.Int("in-place-ranks", 8, "tasks of each gang of TestInPlaceFast; 16 and 64 for its figures")
	inPlaceRounds = flag.Int("in-place-rounds", 1, "gangs of TestInPlaceFast; 20 for its figures")
)

// TestInPlaceFast measures gangs with one rank that fails. All ranks run again in a time that a loaded machine keeps
// too, with the same GPUs, and in containers with what they wrote to their root.
func TestInPlaceFast(t *testing.T) { eachDriver(t, inPlaceFast) }

func inPlaceFast(t *testing.T, c *cluster) {
	c.node("n1", "r1", "--gpus", fmt.Sprint(*inPlaceRanks))
	image, kept := "host", `"$TMPDIR/begun"`
	if c.driver != "process" {
		image, kept = able.MakeRootfs(t), "/data/begun"
		reachable(t, filepath.Dir(image))
		data := filepath.Join(image, "data")
		if err := errors.Join(os.Mkdir(data, 0o777), os.Chmod(data, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	var all []time.Duration
	for range *inPlaceRounds {
		all = append(all, c.restartsInPlace(image, kept))
	}
	slices.Sort(all)
	t.Logf("from the end to the barrier of %d ranks: median %v, longest %v", *inPlaceRanks, all[len(all)/2],
		all[len(all)-1])
	if most := all[len(all)-1]; most > pace.Of(20*time.Second) {
		t.Errorf("it took %v", most)
	}
}

// reachable lets the users of tasks pass through the folders from a test's own up to the one for all tests.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// restartsInPlace runs a gang of which rank 3 fails once, and returns the time from the recorded end to the barrier.
func (c *cluster) restartsInPlace(image, kept string) time.Duration {
	c.t.Helper()
	id := strings.TrimSpace(c.cli("submit", "--image", image, "-q", "--replicas", fmt.Sprint(*inPlaceRanks), "--cpu",
		"0.1", "--mem", "16Mi", "--gpus-per-task", "1", "--restarts", "1", "--in-place", "--grace", "1s", "--", "sh", "-c",
		`ls `+kept+` 2>/dev/null && exec sleep 600; touch `+kept+`
		[ "$SYNAPSE_RANK" = 3 ] && { sleep 1; exit 9; }
		exec sleep 600`).wants(c.t, 0, "\n", "").out)
	first := c.await(id, "running").GetAttempt()
	again := c.until(id, "runs again", func(s *messages.JobStatus) bool {
		return s.GetRecord().GetRuns() == 2 && s.GetAttempt().GetStartedUnixMs() > 0
	}).GetAttempt()
	if again.GetInherited().GetRank() != 3 || again.GetStoppingMs() == 0 {
		c.t.Errorf("it went through the queue: %v", again)
	}
	for i, p := range again.GetPlaces() {
		if was := first.GetPlaces()[i].GetGrant().GetGpus(); p.GetGrant().GetGpus()[0].GetGpuId() != was[0].GetGpuId() {
			c.t.Errorf("rank %d had %v and has %v", i, was, p.GetGrant().GetGpus())
		}
	}
	c.prints(id, "begun")
	c.cli("cancel", id).wants(c.t, 0, "", "")
	return time.Duration(again.GetStoppingMs()+again.GetStartedUnixMs()-again.GetCommittedUnixMs()) * time.Millisecond
}
