package main

import (
	"path/filepath"
	"testing"
	"time"
)

// This file tests how tasks that wait for rank 0 learn of its end.

// TestReleaseIsEarly checks that a task receives the report also if it arrives before the task listens.
func TestReleaseIsEarly(t *testing.T) {
	t.Setenv("SYNAPSE_EXEC", filepath.Join(t.TempDir(), "synapse-exec"))
	for _, ahead := range []time.Duration{200 * time.Millisecond, 0} {
		told := make(chan error, 1)
		go func() {
			err := release(nil)
			for failed := err; failed != nil; failed = release(nil) { // so that no test waits forever
				time.Sleep(time.Millisecond)
			}
			told <- err
		}()
		time.Sleep(ahead)
		if code, err := stay(); code != 0 || err != nil {
			t.Errorf("it waits until %d: %v", code, err)
		}
		if err := <-told; err != nil {
			t.Errorf("told %s before: %v", ahead, err)
		}
	}
}
