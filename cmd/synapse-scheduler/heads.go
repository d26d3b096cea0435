package main

import (
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/store"
)

// This file connects the audit log with the store, whose packages are independent.

// heads implements audit.Board with the store.
type heads struct{ store.Store }

// KeepHead implements audit.Board.
func (h heads) KeepHead(head audit.Pin) error {
	return h.Store.KeepHead(store.AuditHead{Scheduler: head.Of, N: head.N, Hash: head.Hash})
}

// Heads implements audit.Board.
func (h heads) Heads() (all []audit.Pin, err error) {
	kept, err := h.Store.Heads()
	for _, one := range kept {
		all = append(all, audit.Pin{Of: one.Scheduler, N: one.N, Hash: one.Hash})
	}
	return all, err
}
