package storetest

import (
	"math"
	"slices"
	"strings"

	"github.com/yi-json/synapse/store"
)

// This file owns the case about audit heads: the last one of each scheduler is stored, independent of leaders and
// crashes.

func tryHeads(w *world) {
	w.heads()
	a, b := store.AuditHead{Scheduler: "a", N: 7, Hash: "h7"}, store.AuditHead{Scheduler: "b", N: 3, Hash: "h3"}
	for _, h := range []store.AuditHead{b, a} {
		w.head(h)
	}
	w.crash()
	w.heads(a, b)
	w.lead()                                             // at most one of them leads, and both continue to report
	a.N, a.Hash, b.N, b.Hash = 8, "h8", 1, "begun again" // a lost audit log begins again at line one
	w.head(a)
	w.head(b)
	w.crash()
	w.heads(a, b)
	for _, h := range []store.AuditHead{
		{N: 1, Hash: "h"}, {Scheduler: "c", Hash: "h"}, {Scheduler: "c", N: 1}, {Scheduler: "c\x00", N: 1, Hash: "h"},
		{Scheduler: "c", N: math.MaxInt64 + 1, Hash: "h"}, {Scheduler: strings.Repeat("c", 513), N: 1, Hash: "h"},
	} {
		if err := w.s.KeepHead(h); err == nil {
			w.Fatalf("%.80v was kept", h)
		}
	}
	w.heads(a, b)
	longest := store.AuditHead{Scheduler: strings.Repeat("c", 512), N: math.MaxInt64, Hash: strings.Repeat("h", 512)}
	w.head(longest)
	w.heads(a, b, longest)
}

func (w *world) head(h store.AuditHead) {
	w.Helper()
	if err := w.s.KeepHead(h); err != nil {
		w.Fatalf("keep %v: %v", h, err)
	}
}

// heads compares the stored heads with the expected ones.
func (w *world) heads(want ...store.AuditHead) {
	w.Helper()
	if all, err := w.s.Heads(); err != nil || !slices.Equal(all, want) {
		w.Fatalf("the heads are %v, want %v: %v", all, want, err)
	}
}
