package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests arrays on a cluster of real processes whose scheduler is killed repeatedly. `go test ./test/e2e -run
// TestArrayOutlivesTheLeader -e2e.elements 400 -e2e.failovers 8` tests more of them.

var elements = flag.Int("e2e.elements", 60, "how many elements the array has whose leader is killed")

// TestArrayOutlivesTheLeader checks that no element is lost or run twice, and that a client that follows the array's
// output gets the output of each element once.
func TestArrayOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { arrayOutlives(t) })
	t.Run("PostgreSQL", func(t *testing.T) {
		everywhere(t)
		arrayOutlives(t, "--store", pgtest.Start(t).Database(t))
	})
}

func arrayOutlives(t *testing.T, more ...string) {
	c := newCluster(t, more...)
	c.node("n1", "r1")
	c.node("n2", "r1")
	out := t.TempDir()
	spec := writing(t, out, gang(1, 0, "echo ran >> "+out+"/$SYNAPSE_ARRAY_INDEX; echo written"))
	spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 1, Last: int32(*elements)}}, Most: 16}
	id := c.submit(spec)
	follows := c.begins("logs", "-f", id)
	follows.says(t, "] written\n") // a client that never reached a scheduler would not wait for the next one
	within := 2*time.Minute + time.Duration(*elements)*time.Second/4
	for kill := range *failovers {
		enough := int32(*elements * kill / *failovers)
		c.untilWithin(id, within, "on its way",
			func(s *messages.JobStatus) bool { return s.Counts.GetSucceeded() >= enough })
		c.scheduler.kill()
		c.lead(c.address, more...)
	}
	c.untilWithin(id, within, "over", func(s *messages.JobStatus) bool { return s.Phase == "succeeded" })
	for i := range *elements {
		text, err := os.ReadFile(filepath.Join(out, fmt.Sprint(i+1)))
		if n := strings.Count(string(text), "ran\n"); n != 1 {
			t.Errorf("element %d ran %d times: %v", i+1, n, err)
		}
	}
	followed := follows.end(t, 2*time.Minute)
	for i := range *elements {
		if n := strings.Count(followed.out, fmt.Sprintf("[%d] written\n", i+1)); n != 1 {
			t.Errorf("the output of element %d was shown %d times", i+1, n)
		}
	}
	if followed.code != 0 {
		t.Errorf("logs -f ended with %d: %s", followed.code, followed.err)
	}
	if s := c.job(id); int(s.Counts.GetSucceeded()) != *elements {
		t.Errorf("of %d elements %s", *elements, s.Counts.Words())
	}
}
