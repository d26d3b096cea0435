package store

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file owns the tokens of users: how a token's record is sealed and read, and how the store in memory keeps it. A
// revoked token is deleted, because a missing token is refused.

// SealPass returns the stored form of a valid record.
func SealPass(pass *messages.PassRecord) ([]byte, error) {
	if err := readable(pass); err != nil {
		return nil, err
	}
	record, err := proto.Marshal(pass)
	return seal(record), err
}

// ReadPass reads a stored token's record.
func ReadPass(id string, sealed []byte) (*messages.PassRecord, error) {
	record, err := unseal("pass", id, sealed)
	if err != nil {
		return nil, err
	}
	pass := new(messages.PassRecord)
	if err := parse("pass", id, record, pass); err != nil {
		return nil, err
	}
	if pass.Id != id {
		return nil, damaged("pass", id, "it contains the record of %q", pass.Id)
	}
	return pass, nil
}

// PassRow reads a row of all tokens: id, record. An unreadable token admits nobody and is omitted.
func PassRow[B ~[]byte](to *[]*messages.PassRecord) func(Row) error {
	return func(row Row) error {
		var id string
		var sealed B
		if err := row.Scan(&id, &sealed); err != nil {
			return err
		}
		if pass, err := ReadPass(id, sealed); err == nil {
			*to = append(*to, pass)
		}
		return nil
	}
}

// FoundPass holds the record of one token.
type FoundPass struct {
	ID   string
	pass *messages.PassRecord
	bad  error
}

// Row reads the token's row: record. There is at most one.
func (f *FoundPass) Row(row Row) error {
	var sealed []byte
	err := row.Scan(&sealed)
	if err == nil {
		f.pass, f.bad = ReadPass(f.ID, sealed)
	}
	return err
}

// Pass returns the token. It returns ErrNotFound if there is none, and ErrDamaged if it is unreadable.
func (f *FoundPass) Pass() (*messages.PassRecord, error) {
	if f.pass == nil && f.bad == nil {
		return nil, ErrNotFound
	}
	return f.pass, f.bad
}

// Passes lists the check of users' tokens.
var Passes = []Check{{"id, record", "pass", checkPass}}

func checkPass(row Row) error {
	var id string
	var sealed []byte
	if err := row.Scan(&id, &sealed); err != nil {
		return err
	}
	_, err := ReadPass(id, sealed)
	return err
}

// KeepPass implements Store.
func (m *Memory) KeepPass(epoch uint64, pass *messages.PassRecord) error {
	sealed, err := SealPass(pass)
	if err != nil {
		return err
	}
	return m.passing(epoch, func() batch {
		if m.passes[pass.Id] != nil {
			return nil
		}
		return batch{m.putPass(pass.Id, sealed)}
	})
}

// DropPass implements Store.
func (m *Memory) DropPass(epoch uint64, id string) error {
	return m.passing(epoch, func() batch { return batch{m.putPass(id, nil)} })
}

func (m *Memory) passing(epoch uint64, do func() batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.led(epoch, m.holder)
	if err == nil {
		m.written(do())
	}
	return err
}

// putPass replaces a token, or removes it if next is nil. It returns a function that undoes it.
func (m *Memory) putPass(id string, next []byte) func() {
	return replaced(m.passes, id, next, func(sealed []byte) bool { return sealed != nil })
}

// replaced stores a value under a key, or removes the key if the value is empty. It returns a function that undoes it.
func replaced[V any](in map[string]V, key string, next V, is func(V) bool) func() {
	set := func(v V) {
		if !is(v) {
			delete(in, key)
			return
		}
		in[key] = v
	}
	was := in[key]
	set(next)
	return func() { set(was) }
}

// Pass implements Store.
func (m *Memory) Pass(id string) (*messages.PassRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tail = nil
	switch sealed := m.passes[id]; {
	case m.closed:
		return nil, ErrClosed
	case sealed == nil:
		return nil, ErrNotFound
	default:
		return ReadPass(id, sealed)
	}
}

// Passes implements Store.
func (m *Memory) Passes() (all []*messages.PassRecord, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.tail = nil
	for _, id := range slices.Sorted(maps.Keys(m.passes)) {
		pass, err := ReadPass(id, m.passes[id])
		switch {
		case err == nil:
			all = append(all, pass)
		case !errors.Is(err, ErrDamaged):
			return nil, err
		}
	}
	return all, nil
}
