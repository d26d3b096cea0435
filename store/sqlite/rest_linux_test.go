package sqlite

import (
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// TestRestGivesBack checks that the cache is released once after the last write, and that later reads return what was
// written.
func TestRestGivesBack(t *testing.T) {
	s := fresh(t)
	defer s.Close()
	epoch, err := s.Lead("a")
	if err != nil {
		t.Fatal(err)
	}
	const jobs, each = 40, 512 << 10
	text := make([]byte, each/2)
	for i := range jobs {
		_, _ = rand.Read(text)
		rec := &messages.JobRecord{
			Id: fmt.Sprint("j", i), Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: uint64(i + 1)},
			Arrival: uint64(i + 1), State: messages.JobState_JOB_STATE_QUEUED, Owner: &messages.Principal{Name: "ann"},
			Spec: &messages.JobSpec{Name: "x", Image: "host", Command: []string{fmt.Sprintf("%x", text)}},
		}
		if _, err := s.Apply(epoch, []actors.Change{{Job: rec}}); err != nil {
			t.Fatal(err)
		}
	}
	full := resident(t)
	if err := s.Rest(); err != nil {
		t.Fatal(err)
	}
	if now := resident(t); now < full-4 {
		t.Errorf("%d MiB went back though something has just been written", full-now)
	}
	if err := s.Rest(); err != nil {
		t.Fatal(err)
	}
	if now := resident(t); now > full-10 {
		t.Errorf("%d MiB were held, and %d are", full, now)
	}
	if s.rested.Load() != s.written.Load() {
		t.Error("to rest counts as a write")
	}
	if rec, _, err := s.Job("j7"); err != nil || len(rec.Spec.Command[0]) != each {
		t.Errorf("%v, %v", len(rec.GetSpec().GetCommand()), err)
	}
}

// resident returns the memory of this process in MiB.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory() // Go's own unused memory does not count
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Fscan(strings.NewReader(string(text)), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}
