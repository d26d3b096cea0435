//go:build world

package world

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file tests that `make compare` works. Its results mean nothing on two nodes and in one round.

// TestCompare compares Synapse and Slurm in small.
func TestCompare(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "compare", "NODES=2", "ROUNDS=1", "SUBMITS=4",
		"JOBS=4")
	cmd.Dir = "../.."
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) && strings.Contains(errs.String(), "no Slurm on this host") {
		t.Skip(errs.String())
	}
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	for _, row := range []string{"| gang of 1: ", "| submits by `sbatch`, 8 at once | ", "| hello world in Go | "} {
		if !strings.Contains(string(out), row) {
			t.Errorf("the output lacks the row %q:\n%s", row, out)
		}
	}
}
