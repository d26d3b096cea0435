package store

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
)

// This file owns the heads of the schedulers' audit logs: which may be stored, and how the store in memory keeps them.

// AuditHead is the last line of a scheduler's audit log, as that scheduler reported it.
type AuditHead struct {
	Scheduler string // its identity
	N         uint64 // number of the line
	Hash      string // hash of the line
}

// maxHeadText limits the length of a head's scheduler and hash.
const maxHeadText = 512

// Check returns why a head may not be kept.
func (h AuditHead) Check() error {
	for _, text := range []string{h.Scheduler, h.Hash} {
		if text == "" || len(text) > maxHeadText || strings.ContainsRune(text, 0) {
			return errors.New("store: the head of an audit needs a scheduler and a hash, of at most 512 bytes each")
		}
	}
	if h.N == 0 || h.N > math.MaxInt64 {
		return errors.New("store: the head of an audit needs the number of a line")
	}
	return nil
}

// HeadRow reads a row of all heads: scheduler, line, hash.
func HeadRow(to *[]AuditHead) func(Row) error {
	return func(row Row) error {
		var h AuditHead
		err := row.Scan(&h.Scheduler, &h.N, &h.Hash)
		if err == nil {
			*to = append(*to, h)
		}
		return err
	}
}

// KeepHead implements Store.
func (m *Memory) KeepHead(head AuditHead) error {
	if err := head.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.written(batch{replaced(m.heads, head.Scheduler, head, func(h AuditHead) bool { return h.N > 0 })})
	return nil
}

// Heads implements Store.
func (m *Memory) Heads() (all []AuditHead, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tail = nil
	if m.closed {
		return nil, ErrClosed
	}
	for _, scheduler := range slices.Sorted(maps.Keys(m.heads)) {
		all = append(all, m.heads[scheduler])
	}
	return all, nil
}
