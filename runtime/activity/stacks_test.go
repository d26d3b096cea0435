package activity

// This file tests the limit of the stacks of a task.

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestStacksAreBounded checks that the agent keeps only a part of the stacks of a program that prints many.
func TestStacksAreBounded(t *testing.T) {
	spy := filepath.Join(t.TempDir(), "py-spy")
	if err := os.WriteFile(spy, []byte("#!/bin/sh\nhead -c 5000000 /dev/zero; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := python(context.Background(), spy, os.Getpid())
	if len(text) < MaxStackBytes || len(text) > MaxStackBytes+100 {
		t.Errorf("%d bytes are kept", len(text))
	}
}
