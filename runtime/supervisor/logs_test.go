package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// TestRotation checks that the last segments are kept, that every offset stays valid, and that a reader of removed data
// gets the offset of the rest.
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

// TestReadDuringRotation checks that rotation between listing and reading causes no wrong result. The result is one
// piece of the output at the returned offset. No available data is skipped, and no end is reported early.
func TestReadDuringRotation(t *testing.T) {
	const size, count = 10, 5
	text := strings.Repeat("0123456789", count)
	listed := []int64{0, 10, 20, 30, 40}
	for gone := range 1 << count { // each bit is a removed segment
		dir := t.TempDir()
		for i, begin := range listed {
			if gone&(1<<i) == 0 {
				write(t, filepath.Join(dir, segmentName(Stdout, begin)), text[begin:begin+size])
			}
		}
		for offset := range int64(len(text) + 2) {
			for _, limit := range []int{1, 9, 10, 11, 25, 100} {
				at, data, atEnd, err := readSegments(dir, Stdout, listed, offset, limit)
				from := offset
				for from < int64(len(text)) && gone&(1<<(from/size)) != 0 {
					from += size - from%size
				}
				until := from
				for until < int64(len(text)) && until < from+int64(limit) && gone&(1<<(until/size)) == 0 {
					until++
				}
				lost := from == until && gone&(1<<(count-1)) != 0
				end := until >= int64(len(text)) && until < from+int64(limit)
				if lost != errors.Is(err, fs.ErrNotExist) || !lost && (err != nil || at != from || atEnd != end ||
					string(data) != text[min(from, until, int64(len(text))):min(until, int64(len(text)))]) {
					t.Fatalf("without %05b, %d bytes from %d: %d, %q, %v, %v", gone, limit, offset, at, data, atEnd, err)
				}
			}
		}
	}
}

// TestReadWhileWritten checks that a reader next to a rotating writer gets no error and no byte of another offset.
func TestReadWhileWritten(t *testing.T) {
	w := &logWriter{dir: t.TempDir(), stream: Stdout, segment: 2, keep: 1}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 3000 {
			_, _ = w.Write([]byte{byte('a' + i%26)})
		}
	}()
	for next, over := int64(0), false; !over; {
		select {
		case <-written:
			over = true
		default:
		}
		at, data, _, err := ReadLog(w.dir, Stdout, next, 100)
		if err != nil || at < next {
			t.Fatalf("from %d: at %d, %v", next, at, err)
		}
		for i, b := range data {
			if want := byte('a' + (at+int64(i))%26); b != want {
				t.Fatalf("from %d: %q at %d has %c for %c", next, data, at, b, want)
			}
		}
		if next = at + int64(len(data)); over && next != 3000 {
			t.Errorf("it ends at %d", next)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLogDiskFull checks that data that does not fit is dropped and counted, without an effect on the task.
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

// TestFullDisk checks that on a full disk the task runs, its exit is recorded, and dropped output is counted.
func TestFullDisk(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer func() { // the supervisor uses the directory until its end
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

// TestFlood checks that the kept output of a task never exceeds the size of its segments.
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

// FuzzStat checks that no line of /proc makes the parser panic.
func FuzzStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := parseStat(7, line); ok && p.PID != 7 {
			t.Error(p)
		}
	})
}

// FuzzCommand checks that an invalid packet never parses as a command.
func FuzzCommand(f *testing.F) {
	f.Add("stop 15 1000")
	f.Add("keep -1")
	f.Fuzz(func(t *testing.T, text string) {
		if c, ok := parseCommand(text); ok && (c.verb == "" || c.first < 0 || c.second < 0) {
			t.Error(c)
		}
	})
}

// TestDescendants checks that a cycle of parents, which a reused pid can cause, ends.
func TestDescendants(t *testing.T) {
	all := []Process{{PID: 2, Parent: 1}, {PID: 3, Parent: 2}, {PID: 1, Parent: 3}, {PID: 9, Parent: 8}}
	if got := Descendants(1, all); len(got) != 2 || got[0].PID != 2 || got[1].PID != 3 {
		t.Error(got)
	}
}

// TestTimes checks that each part of a stream has the time of its writing, also after rotation, and that marks are
// removed with their segment.
func TestTimes(t *testing.T) {
	w := &logWriter{dir: t.TempDir(), stream: Stdout, segment: 100, keep: 2}
	write := func(text string) {
		w.marked = w.marked.Add(-2 * markPause) // as if time had passed
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().UnixMilli()
	for range 30 {
		write("ten bytes\n")
	}
	after := time.Now().UnixMilli()
	for _, c := range []struct {
		from, to int64
		want     []int64
	}{
		{205, 215, []int64{200, 210}}, {200, 201, []int64{200}}, {250, 270, []int64{250, 260}}, {300, 400, []int64{290}},
		{95, 105, []int64{100}}, // the segment before was removed
	} {
		marks, err := ReadTimes(w.dir, Stdout, c.from, c.to, 100)
		var offsets []int64
		for _, m := range marks {
			offsets = append(offsets, m.Offset)
			if m.UnixMs < before || m.UnixMs > after {
				t.Errorf("%v is not between %d and %d", m, before, after)
			}
		}
		if err != nil || !slices.Equal(offsets, c.want) {
			t.Errorf("%d to %d: %v %v, want %v", c.from, c.to, offsets, err, c.want)
		}
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "*-times-*"))
	if err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
	quick := &logWriter{dir: t.TempDir(), stream: Stderr, segment: 1 << 20, keep: 2}
	for range 1000 {
		if _, err := quick.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
	}
	if marks, err := ReadTimes(w.dir, Stdout, 205, 300, 3); err != nil || len(marks) != 3 || marks[0].Offset != 200 {
		t.Errorf("of ten marks, three are %v: %v", marks, err)
	}
	if marks, err := ReadTimes(quick.dir, Stderr, 0, 2000, 100); err != nil || len(marks) > 20 || len(marks) == 0 {
		t.Errorf("%d marks for a thousand writes: %v", len(marks), err)
	}
}
