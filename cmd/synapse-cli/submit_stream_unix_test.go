//go:build unix

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file tests that a stream of jobs can be interrupted.

// TestSubmitStreamAtOnce checks that each job is submitted before the next document is complete, and what an interrupt
// says.
func TestSubmitStreamAtOnce(t *testing.T) {
	f := startFake(t)
	in, to := io.Pipe()
	var out, errs lines
	done := make(chan int, 1)
	go func() {
		done <- run([]string{"synapse-cli", "submit", "-f", "-"}, in, &out, &errs,
			func(name string) (string, bool) { return f.address, name == "SYNAPSE_SERVER" })
	}()
	for _, name := range []string{"one", "two", "three"} {
		_, _ = io.WriteString(to, strings.TrimPrefix(documentOf(name), "---\n")+"---\n")
		await(t, name, func() bool { return strings.Contains(out.String(), "submitted: "+name+",") })
	}
	_, _ = io.WriteString(to, "apiVersion: synapse/v1\n")
	interrupt(t)
	var code int
	await(t, "the end", func() bool {
		select {
		case code = <-done:
			return true
		default:
			return false
		}
	})
	to.Close()
	if want := "synapse-cli: jobs submitted: 3, documents read: 3\n"; code != exit.Interrupted || errs.String() != want {
		t.Errorf("ended with %d and %q, not %q", code, errs.String(), want)
	}
}
