// Package topology holds what is known of the machine room: resources, the
// fabric of places, one machine's books, and where a gang fits. It is pure: no
// clock, no I/O, no goroutine; whoever needs the time passes it in.
package topology

import (
	"cmp"
	"errors"
	"fmt"
)

// This file owns the names of things. They are distinct types, so that a job's id can never be passed for a machine's.

type (
	// NodeID names a machine; it is made once and kept on the machine's disk.
	NodeID string
	// JobID names a job; it is never reused.
	JobID string
	// GPUID is a device's UUID.
	GPUID string
	// Rank numbers a gang's members from 0, neighbours in the room adjacent.
	Rank int32
)

// TaskKey names one container: a member of an attempt.
type TaskKey struct {
	Token Token
	Rank  Rank
}

// String is the name of the task's directory on its machine.
func (k TaskKey) String() string { return fmt.Sprintf("%v-%d", k.Token, k.Rank) }

// Token names one attempt at running a job: the epoch of the leader that made
// it and a counter of that leader. Tokens are ordered and never reused, not
// even by a next leader, so that "newer" has one meaning everywhere.
type Token struct {
	Epoch   uint64
	Counter uint64
}

// IsZero reports whether the token names no attempt.
func (t Token) IsZero() bool { return t == Token{} }

// Compare orders tokens lexicographically.
func (t Token) Compare(o Token) int {
	if c := cmp.Compare(t.Epoch, o.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(t.Counter, o.Counter)
}

// Less reports whether t was made before o.
func (t Token) Less(o Token) bool { return t.Compare(o) < 0 }

// String is order-preserving, so that a task may use it as a fencing token in
// a system that compares strings.
func (t Token) String() string { return string(t.AppendTo(make([]byte, 0, 17))) }

// AppendTo appends what String returns. The names of every task are made of it.
func (t Token) AppendTo(text []byte) []byte {
	return appendHex(append(appendHex(text, t.Epoch), '.'), t.Counter)
}

// appendHex writes a number in at least eight digits.
func appendHex(text []byte, n uint64) []byte {
	digits := 8
	for digits < 16 && n>>(4*digits) > 0 {
		digits++
	}
	for digits--; digits >= 0; digits-- {
		text = append(text, "0123456789abcdef"[n>>(4*digits)&15])
	}
	return text
}

// errToken is returned for a text that String did not make.
var errToken = errors.New("not an attempt token")

// ParseToken reads what String wrote.
func ParseToken(s string) (Token, error) {
	var t Token
	if n, err := fmt.Sscanf(s, "%x.%x", &t.Epoch, &t.Counter); n != 2 || err != nil || t.String() != s {
		return Token{}, fmt.Errorf("%w: %q", errToken, s)
	}
	return t, nil
}
