package storetest

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the case about users' tokens: a token exists from KeepPass until DropPass, over crashes and leaders,
// and only the leader changes tokens.

func pass(id, name string) *messages.PassRecord {
	return &messages.PassRecord{
		Id: id, Hash: make([]byte, messages.PassHashBytes), Role: "submitter", Name: name, By: "ada",
		MadeUnixMs: 1, UntilUnixMs: 2,
	}
}

func tryPasses(w *world) {
	a, b := pass("a1", "ann"), pass("b2", "bob")
	for _, epoch := range []uint64{0, w.epoch + 1} {
		if err := w.s.KeepPass(epoch, a); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("a token under epoch %d: %v", epoch, err)
		}
		if err := w.s.DropPass(epoch, a.Id); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("a token dropped under epoch %d: %v", epoch, err)
		}
	}
	for _, p := range []*messages.PassRecord{b, a, pass("a1", "eve")} { // the last one changes nothing
		if err := w.s.KeepPass(w.epoch, p); err != nil {
			w.Fatalf("keep a token: %v", err)
		}
	}
	w.crash()
	w.passes(a, b)
	if err := w.s.DropPass(w.epoch, a.Id); err != nil {
		w.Fatalf("drop a token: %v", err)
	}
	if err := w.s.DropPass(w.epoch, a.Id); err != nil {
		w.Fatalf("drop it again: %v", err)
	}
	w.crash()
	w.lead()
	w.passes(b)
	for _, id := range []string{a.Id, "", "\x00"} {
		if _, err := w.s.Pass(id); !errors.Is(err, store.ErrNotFound) {
			w.Fatalf("token %q: %v, want not found", id, err)
		}
	}
	if err := w.s.KeepPass(w.epoch, &messages.PassRecord{Id: "c3"}); err == nil {
		w.Fatalf("an invalid token was stored")
	}
	// An unreadable token admits nobody and does not affect the others.
	if err := w.s.KeepPass(w.epoch, a); err != nil {
		w.Fatalf("keep a token: %v", err)
	}
	w.damage("pass", a.Id)
	if _, err := w.s.Pass(a.Id); !errors.Is(err, store.ErrDamaged) {
		w.Fatalf("a damaged token: %v", err)
	}
	w.passes(b)
}

// passes compares the stored tokens with the expected ones.
func (w *world) passes(want ...*messages.PassRecord) {
	w.Helper()
	all, err := w.s.Passes()
	if err != nil || len(all) != len(want) {
		w.Fatalf("the tokens are %v: %v", all, err)
	}
	for i, p := range want {
		one, err := w.s.Pass(p.Id)
		if err != nil || !proto.Equal(one, p) || !proto.Equal(all[i], p) {
			w.Fatalf("token %s is %v, in the list %v: %v", p.Id, one, all[i], err)
		}
	}
}
