package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
