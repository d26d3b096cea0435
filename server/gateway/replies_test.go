package gateway

import (
	"strings"
	"testing"
)

// TestRepliesCannotBeGuessed: whoever was asked knows the name of the process that waits for it, and nobody else does.
func TestRepliesCannotBeGuessed(t *testing.T) {
	g := New(newRoom(t).system("scheduler"), Options{})
	seen := map[string]bool{}
	for range 1_000 {
		pid, done := g.open(make(reply, 1))
		_, secret, ok := strings.Cut(strings.TrimPrefix(pid.Id, replyPath), "-")
		if !ok || len(secret) < 26 || seen[secret] { // of 32 letters: 128 bits
			t.Fatalf("a reply's name is %q", pid.Id)
		}
		seen[secret] = true
		done()
	}
}
