package main

import (
	"path/filepath"
	"testing"
	"time"
)

// This file owns how tasks that wait for rank 0 are told that it has ended.

// TestReleaseIsEarly: one that is told before it listens hears of it all the same, and so does one that is told after.
func TestReleaseIsEarly(t *testing.T) {
	t.Setenv("SYNAPSE_EXEC", filepath.Join(t.TempDir(), "synapse-exec"))
	for _, ahead := range []time.Duration{200 * time.Millisecond, 0} {
		told := make(chan error, 1)
		go func() {
			err := release(nil)
			for failed := err; failed != nil; failed = release(nil) { // so that nobody waits for ever
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
