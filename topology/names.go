// Package topology has the resources of the cluster: amounts, the topology tree, the ledger of one node, and the
// placement of gangs. The package is pure: no clock, no I/O, no goroutines. Callers pass the time.
package topology

import (
	"cmp"
	"errors"
	"fmt"
)

// This file has the types of identifiers. They are distinct types, so that the compiler detects a confusion of, for
// example, a job's ID with a node's.

type (
	// NodeID identifies a node. It is generated once and stored on the node's disk.
	NodeID string
	// JobID identifies a job. It is never reused.
	JobID string
	// GPUID is the UUID of a device.
	GPUID string
	// Rank is the number of a gang's member, from 0. Neighbouring ranks are close together in the topology.
	Rank int32
)

// TaskKey identifies one container: one rank of an attempt.
type TaskKey struct {
	Token Token
	Rank  Rank
}

// String returns the name of the task's directory on its node.
func (k TaskKey) String() string { return fmt.Sprintf("%v-%d", k.Token, k.Rank) }

// Token identifies one attempt of a job: the epoch of the leader that created it, and a counter of that leader. Tokens
// are ordered and never reused, not even by a later leader, so that any two can be compared by age.
type Token struct {
	Epoch   uint64
	Counter uint64
}

// IsZero reports whether the token is unset.
func (t Token) IsZero() bool { return t == Token{} }

// Compare orders tokens by epoch, then by counter.
func (t Token) Compare(o Token) int {
	if c := cmp.Compare(t.Epoch, o.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(t.Counter, o.Counter)
}

// Less reports whether t was created before o.
func (t Token) Less(o Token) bool { return t.Compare(o) < 0 }

// String returns a text that preserves the order of tokens, so that a task may use it as a fencing token in a system
// that compares strings.
func (t Token) String() string { return string(t.AppendTo(make([]byte, 0, 17))) }

// AppendTo appends the text of String. The names of all tasks contain it.
func (t Token) AppendTo(text []byte) []byte {
	return appendHex(append(appendHex(text, t.Epoch), '.'), t.Counter)
}

// appendHex appends a number with at least eight hexadecimal digits.
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

// errToken is returned for a text that String cannot produce.
var errToken = errors.New("not an attempt token")

// ParseToken parses the text of String.
func ParseToken(s string) (Token, error) {
	var t Token
	if n, err := fmt.Sscanf(s, "%x.%x", &t.Epoch, &t.Counter); n != 2 || err != nil || t.String() != s {
		return Token{}, fmt.Errorf("%w: %q", errToken, s)
	}
	return t, nil
}
