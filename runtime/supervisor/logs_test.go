package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// TestRotation: what is kept is the end, every offset stays true, and a reader
// of what is gone is told where the rest begins.
func TestRotation(t *testing.T) {
	w := &logWriter{dir: t.TempDir(), stream: Stdout, segment: 100, keep: 3}
	var all strings.Builder
	for i := range 200 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	text := all.String()
	segments, err := listSegments(w.dir, Stdout)
	if err != nil || len(segments) != 3 {
		t.Fatal(segments, err)
	}
	for offset := int64(0); offset <= int64(len(text)); {
		at, data, end, err := ReadLog(w.dir, Stdout, offset, 33)
		if err != nil || at < max(offset, segments[0]) || text[at:at+int64(len(data))] != string(data) {
			t.Fatalf("offset %d: %d %q %v", offset, at, data, err)
		}
		if offset = at + int64(len(data)); end {
			break
		}
	}
	at, data, end, err := ReadLog(w.dir, Stdout, 0, 1<<20)
	if err != nil || !end || at != segments[0] || string(data) != text[at:] {
		t.Errorf("%d %d bytes %v %v", at, len(data), end, err)
	}
	if at, data, end, err := ReadLog(w.dir, Stdout, int64(len(text))+5, 10); at != int64(len(text))+5 || len(data) > 0 ||
		!end || err != nil {
		t.Errorf("beyond the end: %d %q %v %v", at, data, end, err)
	}
	if _, data, end, err := ReadLog(filepath.Join(w.dir, "none"), Stdout, 0, 10); len(data) > 0 || !end || err != nil {
		t.Errorf("no directory: %q %v %v", data, end, err)
	}
}

// TestLogDiskFull: what does not fit is dropped and counted, and the task never notices.
func TestLogDiskFull(t *testing.T) {
	w := &logWriter{dir: filepath.Join(t.TempDir(), "gone"), stream: Stdout, segment: 100, keep: 3}
	if n, err := w.Write([]byte("hello")); n != 5 || err != nil || w.dropped != 5 {
		t.Error(n, err, w.dropped)
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("again")); err != nil || w.dropped != 5 {
		t.Error(err, w.dropped)
	}
	if _, data, _, _ := ReadLog(w.dir, Stdout, 0, 100); string(data) != "again" {
		t.Errorf("%q", data)
	}
}

// TestFullDisk: on a disk without room the task runs, its exit is recorded, and
// what was dropped is counted.
func TestFullDisk(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer func() { // the supervisor works in it until its very end
		eventually(t, "the disk stays busy", func() bool { return unix.Unmount(dir, 0) == nil })
	}()
	r := &rig{t: t, dir: dir}
	link, err := Start(dir, &Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", `head -c 3000000 /dev/zero; exit 5`}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
	}, []string{"/proc/self/exe", SubCommand})
	if err != nil {
		t.Fatal(err)
	}
	r.link = link
	if exit := r.wait(); exit.Code != 5 || exit.DroppedLogBytes < 2_500_000 {
		t.Errorf("%+v", exit)
	}
	link.Close()
	eventually(t, "the supervisor lives", func() bool { alive, err := Lives(dir); return err == nil && !alive })
}

// TestFlood: a task that writes all it can keeps no more than the segments allow.
func TestFlood(t *testing.T) {
	r := start(t, `head -c 5000000 /dev/zero; echo end`, func(s *Spec) { s.SegmentBytes, s.Segments = 100_000, 4 })
	if exit := r.wait(); exit.Code != 0 || exit.DroppedLogBytes != 0 {
		t.Errorf("%+v", exit)
	}
	at, data, _, err := ReadLog(r.dir, Stdout, 0, 1<<20)
	if err != nil || at+int64(len(data)) != 5_000_004 || len(data) > 400_000 ||
		!strings.HasSuffix(string(data), "\x00end\n") {
		t.Errorf("%d bytes from %d, %v", len(data), at, err)
	}
}

// FuzzStat: no line of /proc makes the parser panic.
func FuzzStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := parseStat(7, line); ok && p.PID != 7 {
			t.Error(p)
		}
	})
}

// FuzzCommand: no packet makes a word of nonsense.
func FuzzCommand(f *testing.F) {
	f.Add("stop 15 1000")
	f.Add("keep -1")
	f.Fuzz(func(t *testing.T, text string) {
		if c, ok := parseCommand(text); ok && (c.verb == "" || c.first < 0 || c.second < 0) {
			t.Error(c)
		}
	})
}

// TestDescendants: a circle, as a pid that is reused while we read can make, ends.
func TestDescendants(t *testing.T) {
	all := []Process{{PID: 2, Parent: 1}, {PID: 3, Parent: 2}, {PID: 1, Parent: 3}, {PID: 9, Parent: 8}}
	if got := Descendants(1, all); len(got) != 2 || got[0].PID != 2 || got[1].PID != 3 {
		t.Error(got)
	}
}
