package audit

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// TestFullDiskLeavesNoHalfLine checks that a partly written line is removed on a full disk, so that the log
// continues with complete lines.
func TestFullDiskLeavesNoHalfLine(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s := &scroll{t: t, dir: dir}
	s.open()
	written := uint64(0)
	for ; written < 10_000; written++ {
		if _, err := s.Add(Line{Who: "ann", What: "fills the disk", Outcome: Asked}); err != nil {
			break
		}
	}
	for range 3 {
		if n, err := s.Add(Line{Who: "ann", What: "finds it full", Outcome: Asked}); err == nil {
			t.Fatalf("line %d of %d is written on a full disk", n, written)
		}
	}
	if err := unix.Mount("none", dir, "", unix.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	s.add("goes on")
	if _, head, err := verify(bytes.NewReader(s.shut()), nil, nil); err != nil || head.N != written+1 {
		t.Errorf("after %d lines and one more: %v, %v", written, head, err)
	}
}
