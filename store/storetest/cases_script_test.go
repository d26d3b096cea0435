package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the case about scripts: a text exists while a job on disk names it, and for some time before that.

func tryScripts(w *world) {
	a, b, c := []byte("#!/bin/sh\necho a\n"), []byte("#!/bin/sh\necho b\n"),
		bytes.Repeat([]byte("#!/bin/sh\n# long \xc3\xa9\n"), 10_000)
	for _, text := range [][]byte{a, b, c, a} {
		w.kept(text)
	}
	for _, epoch := range []uint64{0, w.epoch + 1} {
		if err := w.s.KeepScript(epoch, b); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("a script under epoch %d: %v", epoch, err)
		}
		if _, err := w.s.PruneScripts(epoch, 1); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("scripts pruned under epoch %d: %v", epoch, err)
		}
	}
	j := w.submit("j", 1)
	j.Spec.Script = &messages.Script{Name: "a.sh", Digest: messages.ScriptDigest(a), SizeBytes: int64(len(a))}
	w.wrote("D", jobChange(j))
	w.crash()
	w.reads(a, b, c)
	w.prunes(0) // and notes that no job names b and c
	w.kept(b)   // a job is about to name it
	w.prunes(1)
	w.reads(a, b)
	w.lacks(c)

	w.wrote("D", jobChange(w.over(j, 10)))
	w.prunes(1) // b: no job did
	w.prunes(0)
	w.reads(a) // a finished job may be submitted again
	if n, err := w.s.Prune(w.epoch, 11, 1); err != nil || n != 1 {
		w.Fatalf("pruned %d jobs: %v", n, err)
	}
	w.crash()
	w.prunes(0)
	w.reads(a)
	w.prunes(1)
	w.lacks(a)
	w.kept(a)
	w.reads(a)
	for i := range 5 {
		w.kept(fmt.Appendf(nil, "#!/bin/sh\n%d\n", i))
	}
	w.prunes(0)
	if n, err := w.s.PruneScripts(w.epoch, 4); err != nil || n != 4 {
		w.Fatalf("%d scripts pruned of at most 4: %v", n, err)
	}
	w.prunes(2)
	if _, err := w.s.Script("\x00"); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("invalid digest: %v", err)
	}
}

func (w *world) kept(text []byte) {
	w.Helper()
	if err := w.s.KeepScript(w.epoch, text); err != nil {
		w.Fatalf("keep a script: %v", err)
	}
}

func (w *world) prunes(want int) {
	w.Helper()
	if n, err := w.s.PruneScripts(w.epoch, 100); err != nil || n != want {
		w.Fatalf("%d scripts were pruned (%v), want %d", n, err, want)
	}
}

func (w *world) reads(texts ...[]byte) {
	w.Helper()
	for _, text := range texts {
		if got, err := w.s.Script(messages.ScriptDigest(text)); err != nil || !bytes.Equal(got, text) {
			w.Fatalf("script %.20q is %.20q: %v", text, got, err)
		}
	}
}

func (w *world) lacks(text []byte) {
	w.Helper()
	if _, err := w.s.Script(messages.ScriptDigest(text)); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("script %.20q: %v, want not found", text, err)
	}
}
