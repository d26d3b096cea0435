package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// This file tests audit logs of several files, and full disks.

// verify verifies the audit log in the folder.
func (s *scroll) verify(kept ...Head) (first uint64, head Head, err error) {
	s.t.Helper()
	a, err := OpenAccount(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Close()
	return verify(a, kept, nil)
}

// turned returns an audit log of several files with a few lines each.
func turned(t *testing.T) (s *scroll, files []string) {
	t.Helper()
	s = newScroll(t)
	s.full = 1000
	for i := range 20 {
		s.add(fmt.Sprint("line ", i+1))
	}
	files, err := fullFiles(s.dir)
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	return s, files
}

// TestFilesTurn checks that a full file is renamed to the number of its first line, and that no file is much larger
// than the limit. The chain continues across files and restarts, also if the next file is still empty.
func TestFilesTurn(t *testing.T) {
	s, files := turned(t)
	for _, name := range append(files, filepath.Join(s.dir, File)) {
		if info, err := os.Stat(name); err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
	if filepath.Base(files[0]) != "audit-00000000000000000001.log" {
		t.Errorf("the first is %s", files[0])
	}
	s.shut()
	if first, head, err := s.verify(); first != 1 || head.N != 20 || err != nil {
		t.Fatalf("%d to %d: %v", first, head.N, err)
	}
	if err := os.Rename(filepath.Join(s.dir, File), filepath.Join(s.dir, "audit-00000000000000000019.log")); err != nil {
		t.Fatal(err)
	}
	s.open() // as after a crash between the two steps
	s.add("line 21")
	s.shut()
	if _, head, err := s.verify(); head.N != 21 || err != nil {
		t.Errorf("after a crash %d: %v", head.N, err)
	}
	var got []string
	a, err := OpenAccount(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := Read(a, func(l Line) error { got = append(got, l.What); return nil }); err != nil || len(got) != 21 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFilesMissing checks that the first files may be moved away, and that the verifier reports the first line. A
// missing or wrong file in the middle is detected.
func TestFilesMissing(t *testing.T) {
	s, files := turned(t)
	s.shut()
	_, whole, err := s.verify()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	_, before, err := verify(bytes.NewReader(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(t.TempDir(), "away")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(files[1], away)
	var b *Broken
	if _, _, err := s.verify(); !errors.As(err, &b) || b.Line != before.N+1 {
		t.Errorf("one from the middle is missing: %v", err)
	}
	move(away, files[1])
	move(files[0], away)
	if first, head, err := s.verify(before, whole); first != before.N+1 || head != whole || err != nil {
		t.Errorf("the first is away: %d to %v, %v", first, head, err)
	}
	if _, _, err := s.verify(Head{before.N, strings.Repeat("0", 64)}); !errors.As(err, &b) {
		t.Errorf("what is away was another one: %v", err)
	}
}

// TestFilesCannotTurn checks that the log continues in the full file if no new file can be created, and logs this
// once.
func TestFilesCannotTurn(t *testing.T) {
	s := newScroll(t)
	s.add("line 1")
	s.full = 1
	aside := filepath.Join(s.dir, "audit-00000000000000000001.log")
	if err := os.MkdirAll(filepath.Join(aside, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s.add(fmt.Sprint("line ", i+2))
	}
	if err := os.RemoveAll(aside); err != nil {
		t.Fatal(err)
	}
	s.shut()
	if _, head, err := s.verify(); head.N != 6 || err != nil {
		t.Errorf("%d: %v", head.N, err)
	}
	if n := len(slices.DeleteFunc(s.told, func(l string) bool { return !strings.Contains(l, "in a full file") })); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}

// TestFullDisk checks that a full disk leaves no incomplete line. With free space, the log continues with the next
// number.
func TestFullDisk(t *testing.T) {
	able.Need(t, able.Root, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, 0) }()
	s := &scroll{t: t, dir: dir}
	s.open()
	s.full = 8 << 10
	filler := filepath.Join(dir, "others")
	if err := os.WriteFile(filler, make([]byte, 30<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	written := uint64(0)
	for range 10_000 {
		n, err := s.Add(Line{Who: "ann", What: "much", Outcome: Asked})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
		written = n
	}
	for range 10 {
		if _, err := s.Add(Line{What: "more", Outcome: Asked}); err == nil {
			break // a shorter line may still fit
		}
	}
	if written == 0 || s.head.N > written+10 {
		t.Fatalf("%d lines were written, and the head is %d", written, s.head.N)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	want := s.head.N + 1
	if n, err := s.Add(Line{Who: "ann", What: "again", Outcome: Asked}); err != nil || n != want {
		t.Errorf("with room again: line %d, %v", n, err)
	}
	s.shut()
	if first, head, err := s.verify(); first != 1 || head.N != want || err != nil {
		t.Errorf("%d to %d: %v", first, head.N, err)
	}
	s.open()
	s.add("after a restart")
	s.shut()
	if _, head, err := s.verify(); head.N != want+1 || err != nil {
		t.Errorf("after a restart %d: %v", head.N, err)
	}
}

// FuzzRead checks that each line that Read returns follows from the previous one, for any content of a file.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"n":1,"at":"","outcome":"ok","prev":""}` + "\n"))
	f.Add([]byte(`{"n":7,"at":"","outcome":"ok","prev":"00"}` + "\n" + `{"n":8}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		last := uint64(0)
		head, err := Read(bytes.NewReader(text), func(l Line) error {
			if last != 0 && l.N != last+1 || l.N == 0 {
				t.Errorf("line %d follows line %d", l.N, last)
			}
			last = l.N
			return nil
		})
		if err == nil && last != 0 && head.N != last {
			t.Errorf("the head is %v, and the last line %d", head, last)
		}
		_, _ = Heads(bytes.NewReader(text))
	})
}

// TestFolderIsNoPattern checks that the audit log is complete in folders whose names contain glob characters.
func TestFolderIsNoPattern(t *testing.T) {
	for _, name := range []string{"a[b", "[ab]", "*"} {
		s, _ := turned(t)
		s.shut()
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Rename(s.dir, dir); err != nil {
			t.Fatal(err)
		}
		s.dir = dir
		if first, head, err := s.verify(); first != 1 || head.N != 20 || err != nil {
			t.Errorf("%s: from %d to %d, %v", name, first, head.N, err)
		}
	}
}
