package store

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file owns the tokens of people: how a record of one is sealed and read, and how the store in memory keeps them.
// What is revoked is gone: a token that is not there is refused.

// SealPass is the stored form of a record that may be written.
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
		return nil, damaged("pass", id, "it is the record of %q", pass.Id)
	}
	return pass, nil
}

// PassRow takes a row of all tokens: id, record. One that cannot be read lets nobody in, and is left out.
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

// Row takes its row: record. There is at most one.
func (f *FoundPass) Row(row Row) error {
	var sealed []byte
	err := row.Scan(&sealed)
	if err == nil {
		f.pass, f.bad = ReadPass(f.ID, sealed)
	}
	return err
}

// Pass is the token. ErrNotFound if there is none, ErrDamaged if it cannot be read.
func (f *FoundPass) Pass() (*messages.PassRecord, error) {
	if f.pass == nil && f.bad == nil {
		return nil, ErrNotFound
	}
	return f.pass, f.bad
}

// Passes is the check of people's tokens.
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

// putPass replaces a token (nil: removes it) and returns how to undo that.
func (m *Memory) putPass(id string, next []byte) func() {
	return replaced(m.passes, id, next, func(sealed []byte) bool { return sealed != nil })
}

// replaced puts a value under a key, or removes the one that is there if the value is none, and returns how to undo
// that.
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
