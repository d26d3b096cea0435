package supervisor

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This file tests the end of a task's output.

// copying returns a keeper that copies the output of an imaginary task into a new directory. theirs are the task's ends
// of the output.
func copying(t *testing.T) (k *keeper, theirs [2]*os.File) {
	t.Helper()
	t.Chdir(t.TempDir())
	k = &keeper{drained: make(chan struct{})}
	theirs, err := k.openOutput()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeAll(theirs[:])
		closeAll(k.out[:])
	})
	return k, theirs
}

// TestLateCopy checks that the output before a task's end is kept completely, even if the log can be written only long
// after it.
func TestLateCopy(t *testing.T) {
	k, theirs := copying(t)
	slow := segmentName(Stdout, 0)
	if err := unix.Mkfifo(slow, 0o600); err != nil { // opening a fifo for writing waits for a reader
		t.Fatal(err)
	}
	k.copyLogs()
	wrote := bytes.Repeat([]byte("0123456789abcde\n"), 60<<10/16)
	if n, err := theirs[0].Write(wrote); err != nil {
		t.Fatal(n, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.closeLogs()
		k.logs[0].file.Close()
	}()
	time.Sleep(drainPatience + 100*time.Millisecond)
	log, err := os.Open(slow)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	kept, err := io.ReadAll(log)
	<-ended
	if err != nil || !bytes.Equal(kept, wrote) || k.logs[0].dropped > 0 {
		t.Errorf("%d bytes of %d are kept, and %d dropped: %v", len(kept), len(wrote), k.logs[0].dropped, err)
	}
}

// TestStrangersHoldOutput checks that a process that holds a task's output after its end delays nothing, whether it is
// silent or writes without end.
func TestStrangersHoldOutput(t *testing.T) {
	k, theirs := copying(t)
	k.copyLogs()
	go func() {
		for line := []byte("more\n"); ; {
			if _, err := theirs[1].Write(line); err != nil {
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.closeLogs()
	}()
	select {
	case <-ended:
	case <-time.After(soon):
		t.Error("the output has not ended")
	}
}
