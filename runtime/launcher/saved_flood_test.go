package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/progress"
	"github.com/yi-json/synapse/topology"
)

// This file tests the bound on the acknowledgements of one task.

// TestSavedIsBounded checks that a task that changes its acknowledgement without end is reported a bounded number of
// times per request, and again for the next request.
func TestSavedIsBounded(t *testing.T) {
	task := &task{Task: Task{Key: topology.TaskKey{}, Scratch: t.TempDir()}}
	path := filepath.Join(task.Scratch, progress.SavedName(0))
	for request := range uint64(2) {
		sent := 0
		task.progress.saves.begin(request + 1)
		for step := range 4 * mostSaved {
			if err := os.WriteFile(path, fmt.Appendf(nil, "%d %d\n", request+1, step), 0o600); err != nil {
				t.Fatal(err)
			}
			at := time.Unix(int64(step), 0) // two writes within one tick of the file system look alike
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
			if task.lookForSaved() != nil {
				sent++
			}
		}
		if sent != mostSaved {
			t.Errorf("request %d: %d acknowledgements are sent, want %d", request+1, sent, mostSaved)
		}
	}
}

// TestSocketIsBounded checks that a task can send a bounded number of lines per request, and again for the next
// request.
func TestSocketIsBounded(t *testing.T) {
	task := &task{Task: Task{Scratch: t.TempDir()}, home: t.TempDir(), phase: phaseRunning}
	task.Spec = &messages.JobSpec{Checkpoint: &messages.CheckpointSpec{Ack: messages.SaveAck_SAVE_ACK_SOCKET}}
	for request := range uint64(2) {
		recorded := 0
		task.progress.saves.begin(request + 1)
		for step := range 4 * mostSaved {
			if task.acknowledge(fmt.Sprintf("ack %d %d", request+1, step)) == nil {
				recorded++
			}
		}
		if recorded != mostSaved {
			t.Errorf("%d lines were recorded", recorded)
		}
		if steps, err := task.readHeard(request + 1); len(steps) != messages.MaxSavedSteps || err != nil {
			t.Errorf("%v, %v", steps, err)
		}
	}
}
