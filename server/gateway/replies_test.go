package gateway

import (
	"strings"
	"testing"
)

// TestRepliesCannotBeGuessed checks that only the receiver of a request learns the name of the reply process.
func TestRepliesCannotBeGuessed(t *testing.T) {
	g := New(newRoom(t).system("scheduler"), Options{})
	seen := map[string]bool{}
	for range 1_000 {
		pid, done := g.open(make(reply, 1))
		_, secret, ok := strings.Cut(strings.TrimPrefix(pid.Id, replyPath), "-")
		if !ok || len(secret) < 26 || seen[secret] { // 26 of 32 letters: at least 128 bits
			t.Fatalf("a reply's name is %q", pid.Id)
		}
		seen[secret] = true
		done()
	}
}
