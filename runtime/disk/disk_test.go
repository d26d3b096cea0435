package disk

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

type rig struct {
	t    *testing.T
	d    *Disk
	pid  *actor.PID
	said chan any
}

func newRig(t *testing.T, path string) *rig {
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	r := &rig{t: t, d: New(system, path), said: make(chan any, 100)}
	r.pid = system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case actors.DiskLoaded, actors.DiskSaved:
			r.said <- m
		}
	}, actor.WithMailbox(link.Mailbox)))
	t.Cleanup(func() { r.d.Close(); system.Shutdown() })
	return r
}

func (r *rig) load() actors.DiskLoaded {
	r.d.Load(r.pid)
	return hear[actors.DiskLoaded](r)
}

func (r *rig) save(seq uint64, data string) actors.DiskSaved {
	r.d.Save(seq, []byte(data), r.pid)
	return hear[actors.DiskSaved](r)
}

func hear[M any](r *rig) M {
	r.t.Helper()
	select {
	case m := <-r.said:
		if m, ok := m.(M); ok {
			return m
		}
		r.t.Fatalf("said %v", m)
	case <-time.After(pace.Of(20 * time.Second)):
		r.t.Fatal("no answer")
	}
	panic("unreachable")
}

// TestVersions checks that each save replaces the whole record, and that the next agent reads the last version.
func TestVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r := newRig(t, path)
	if m := r.load(); m.Data != nil || m.Err != "" {
		t.Errorf("%v", m)
	}
	for i := range 5 { // each is shorter, so remains of an earlier one would show
		if m := r.save(uint64(i), fmt.Sprintf("version %s%d", strings.Repeat("-", 4-i), i)); m.Seq != uint64(i) ||
			m.Err != "" {
			t.Errorf("%v", m)
		}
	}
	if m := newRig(t, path).load(); string(m.Data) != "version 4" {
		t.Errorf("%v", m)
	}
}

// TestTorn checks that remains of a save that crashed are never read.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r := newRig(t, path)
	r.save(1, "whole")
	if err := os.WriteFile(path+".spare", []byte("torn, and longer than the next"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := r.load(); string(m.Data) != "whole" {
		t.Errorf("%v", m)
	}
	if m := r.save(2, "next"); m.Err != "" {
		t.Errorf("%v", m)
	}
	if m := r.load(); string(m.Data) != "next" {
		t.Errorf("%v", m)
	}
}

// TestInOrder checks that saves and loads run in order.
func TestInOrder(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "ledger"))
	for i := range 20 {
		r.d.Save(uint64(i), []byte{byte(i)}, r.pid)
		r.d.Load(r.pid)
	}
	for i := range 20 {
		if m := hear[actors.DiskSaved](r); m.Seq != uint64(i) {
			t.Fatalf("%v instead of %d", m, i)
		}
		if m := hear[actors.DiskLoaded](r); !bytes.Equal(m.Data, []byte{byte(i)}) {
			t.Fatalf("%v after %d", m, i)
		}
	}
}

// TestRefusedByTheDisk checks that a failed save returns the reason and leaves the record unchanged.
func TestRefusedByTheDisk(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	r := newRig(t, filepath.Join(dir, "ledger"))
	r.save(1, "small")
	if m := r.save(2, string(make([]byte, 1<<20))); m.Err == "" || m.Seq != 2 {
		t.Errorf("%v", m)
	}
	if m := r.load(); string(m.Data) != "small" {
		t.Errorf("%v", m)
	}
	if m := r.save(3, "well again"); m.Err != "" {
		t.Errorf("%v", m)
	}
	r.d.Close()
}

// TestReserve checks that a larger record can be saved on a disk that others have filled, and that the reserve is
// restored when there is space.
func TestReserve(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	path, scratch := filepath.Join(dir, "ledger"), filepath.Join(dir, "scratch")
	r := newRig(t, path)
	r.save(1, "small")
	fill := func() {
		if err := os.WriteFile(scratch, make([]byte, 32<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
	}
	for seq := uint64(2); seq < 8; seq += 2 {
		fill()
		for _, more := range []uint64{0, 1} {
			if m := r.save(seq+more, strings.Repeat("x", int(seq+more)*100_000)); m.Err != "" {
				t.Errorf("version %d: %s", seq+more, m.Err)
			}
		}
		if err := os.Remove(scratch); err != nil {
			t.Fatal(err)
		}
		r.save(100+seq, strings.Repeat("x", int(seq+1)*100_000))
	}
	r.d.Close()
}

// TestUnreadable checks that an unreadable record is an error, and not an empty ledger.
func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if m := newRig(t, path).load(); m.Err == "" || m.Data != nil {
		t.Errorf("%v", m)
	}
}

// TestQuarantine checks that the complete record is renamed, and that a limited number is kept.
func TestQuarantine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r := newRig(t, path)
	r.d.Quarantine() // of a missing record
	for i := range keptAside + 3 {
		r.save(uint64(i), fmt.Sprintf("bad %02d", i))
		r.d.Quarantine()
		if m := r.load(); m.Data != nil || m.Err != "" {
			t.Errorf("%v", m)
		}
	}
	aside, _ := filepath.Glob(path + ".quarantined-*")
	if len(aside) != keptAside {
		t.Fatalf("%v", aside)
	}
	if data, _ := os.ReadFile(aside[keptAside-1]); string(data) != fmt.Sprintf("bad %02d", keptAside+2) {
		t.Errorf("%q", data)
	}
}

// BenchmarkSave measures a save of a record with one allocation. A node saves it four times per task.
func BenchmarkSave(b *testing.B) {
	path, data := filepath.Join(b.TempDir(), "ledger"), make([]byte, 600)
	for b.Loop() {
		if err := replace(path, data); err != nil {
			b.Fatal(err)
		}
	}
}
