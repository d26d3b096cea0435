package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the scripts of jobs: the check of a text when it is read, and how the store in memory keeps it. The
// gateway writes a script before its job, so a job on disk always finds its script.

// CheckScript refuses a text that does not match its digest.
func CheckScript(digest string, text []byte) error {
	if messages.ScriptDigest(text) != digest {
		return fmt.Errorf("store: script %s: the text does not match the digest: %w", digest, ErrDamaged)
	}
	return nil
}

// scriptEntry is one script. Entries are replaced, never changed in place.
type scriptEntry struct {
	text []byte
	idle bool // no job named it when scripts were last pruned
}

// KeepScript implements Store.
func (m *Memory) KeepScript(epoch uint64, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.led(epoch, m.holder); err != nil {
		return err
	}
	m.written(batch{m.putScript(messages.ScriptDigest(text), &scriptEntry{text: slices.Clone(text)})})
	return nil
}

// putScript replaces a script, or removes it if next is nil. It returns a function that undoes it.
func (m *Memory) putScript(digest string, next *scriptEntry) func() {
	return replaced(m.scripts, digest, next, func(e *scriptEntry) bool { return e != nil })
}

// Script implements Store.
func (m *Memory) Script(digest string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.tail = nil
	e := m.scripts[digest]
	if e == nil {
		return nil, ErrNotFound
	}
	return slices.Clone(e.text), CheckScript(digest, e.text)
}

// PruneScripts implements Store.
func (m *Memory) PruneScripts(epoch uint64, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.led(epoch, m.holder); err != nil {
		return 0, err
	}
	return m.pruneScripts(limit), nil
}

func (m *Memory) pruneScripts(limit int) (gone int) {
	named := m.named()
	var undo batch
	for _, digest := range slices.Sorted(maps.Keys(m.scripts)) {
		switch e := m.scripts[digest]; {
		case e.idle && !named[digest] && gone < limit:
			undo = append(undo, m.putScript(digest, nil))
			gone++
		case e.idle == named[digest]:
			undo = append(undo, m.putScript(digest, &scriptEntry{e.text, !named[digest]}))
		}
	}
	m.written(undo)
	return gone
}

// named returns the scripts that jobs name. An unreadable job names none, because it cannot run.
func (m *Memory) named() map[string]bool {
	named := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if record, err := parseJob(topology.JobID(id), m.jobs[id].record); err == nil {
			named[record.GetSpec().GetScript().GetDigest()] = true
		}
	}
	return named
}
