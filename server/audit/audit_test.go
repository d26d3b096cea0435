package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var today = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// scroll holds an audit log on disk and the lines that it logged.
type scroll struct {
	*Log
	t    *testing.T
	dir  string
	told []string
}

func newScroll(t *testing.T) *scroll {
	s := &scroll{t: t, dir: t.TempDir()}
	s.open()
	return s
}

func (s *scroll) open() {
	s.t.Helper()
	l, err := Open(s.dir, func() time.Time { return today }, func(format string, args ...any) {
		s.told = append(s.told, fmt.Sprintf(format, args...))
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Log = l
}

func (s *scroll) add(what string) {
	s.t.Helper()
	if _, err := s.Add(Line{Who: "ann", What: what, Outcome: Asked}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scroll) shut() []byte {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatal(err)
	}
	return s.text()
}

func (s *scroll) text() []byte {
	text, err := os.ReadFile(filepath.Join(s.dir, File))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// TestGoesOn checks that the audit log continues after a restart with the next number and the hash of the last
// line.
func TestGoesOn(t *testing.T) {
	s := newScroll(t)
	s.add("one")
	s.shut()
	s.open()
	s.add("two")
	var got []string
	head, err := Read(bytes.NewReader(s.shut()), func(l Line) error {
		got = append(got, fmt.Sprint(l.N, l.What, l.At))
		return nil
	})
	if want := []string{"1one2026-11-23T12:00:00Z", "2two2026-11-23T12:00:00Z"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if last := s.told[len(s.told)-1]; last != head.String() {
		t.Errorf("told was %q, and the head is %q", last, head)
	}
	if info, err := os.Stat(filepath.Join(s.dir, File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestTorn checks that an incomplete line after a crash is removed and recorded. An unreadable last line is an
// error.
func TestTorn(t *testing.T) {
	s := newScroll(t)
	s.add("one")
	whole := s.shut()
	path := filepath.Join(s.dir, File)
	if err := os.WriteFile(path, append(whole, `{"n":2,"wh`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.add("three")
	text := s.shut()
	_, head, err := verify(bytes.NewReader(text), nil, nil)
	if err != nil || head.N != 3 || !strings.Contains(string(text), "cut off 10 bytes") {
		t.Errorf("%v, %v: %s", head, err, text)
	}
	if err := os.WriteFile(path, []byte("no line of ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir, time.Now, t.Logf); err == nil {
		t.Error("it goes on with a line that nobody can read")
	}
}

// TestHeadsAreLinesOfTheirOwn checks that heads are found in logs of all formats. Text that a user chooses, such as
// a job name, is never read as a head.
func TestHeadsAreLinesOfTheirOwn(t *testing.T) {
	head := headWords + "7 " + strings.Repeat("a", 64)
	for line, is := range map[string]bool{
		head:                                 true,
		"2026/11/28 12:00:00.000001 " + head: true,
		"Nov 28 12:00:00 head1 synapse-scheduler[812]: 2026/11/28 12:00:00.000001 " + head:                        true,
		"2026-11-28T12:00:00+0100 head1 synapse-scheduler[812]: 2026/11/28 12:00:00 " + head:                      true,
		`{"time":"2026-11-28T12:00:00.000001Z","level":"info","message":"` + head + `"}`:                          true,
		`{"time":"2026-11-28T12:00:00.000001Z","level":"info","message":"` + head + `","epoch":3}`:                true,
		"2026/11/28 12:00:00.000001 Refused a call of ann: " + head:                                               false,
		"2026/11/28 12:00:00.000001 [WARN] " + head:                                                               false,
		"2026/11/28 12:00:00.000001 " + head + " of ann":                                                          false,
		"2026/11/28 12:00:00.000001 job x\\n2026/11/28 12:00:00.000001 " + head:                                   false,
		`{"time":"2026-11-28T12:00:00.000001Z","level":"info","message":"Job ` + head + `"}`:                      false,
		`{"time":"2026-11-28T12:00:00.000001Z","level":"info","message":"no","job":"\"message\":\"` + head + `"}`: false,
		"ann said head1 x[1]: no " + head:                                                                         false,
		headWords + "7 " + strings.Repeat("g", 64):                                                                false,
	} {
		kept, err := Heads(strings.NewReader("before\n" + line + "\nafter\n"))
		if err != nil || (len(kept) == 1) != is || is && kept[0] != (Head{7, strings.Repeat("a", 64)}) {
			t.Errorf("%s: %v, %v", line, kept, err)
		}
	}
}

// TestVerify checks that every change is detected: a changed byte, a changed line with recomputed hashes, and a
// removed end.
func TestVerify(t *testing.T) {
	s := newScroll(t)
	for i := range 5 {
		s.add(fmt.Sprint("line ", i+1))
	}
	text := s.shut()
	kept, err := Heads(strings.NewReader("noise\n2026/11/23 12:00:00 " + s.told[0] + "\nAudit head x y\n"))
	if err != nil || len(kept) != 1 || kept[0].N != 5 {
		t.Fatalf("%v, %v", kept, err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i := range text {
		changed := slices.Clone(text)
		changed[i] ^= 1
		if _, _, err := verify(bytes.NewReader(changed), kept, nil); err == nil {
			t.Fatalf("byte %d was changed: %s", i, changed)
		}
	}
	other := newScroll(t)
	for i := range 5 {
		other.add(fmt.Sprint("line ", i+2))
	}
	for name, c := range map[string]struct {
		text []byte
		line uint64
		kept []Head
	}{
		"as it was":      {text, 0, kept},
		"all made again": {other.shut(), 5, kept},
		"cut":            {bytes.Join(lines[:3], nil), 4, kept},
		"half a line":    {text[:len(text)-4], 5, nil},
		"one left out":   {slices.Concat(lines[0], lines[2], lines[3], lines[4]), 2, nil},
		"two swapped":    {slices.Concat(lines[0], lines[2], lines[1]), 2, nil},
		"empty":          {nil, 1, kept},
	} {
		_, _, err := verify(bytes.NewReader(c.text), c.kept, nil)
		var b *Broken
		if c.line == 0 && err != nil || c.line != 0 && (!errors.As(err, &b) || b.Line != c.line) {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
	}
}

// TestCannotBeWritten checks that a failed write is an error, and that the next line starts on a new line.
func TestCannotBeWritten(t *testing.T) {
	s := newScroll(t)
	s.add("one")
	file := s.file
	read, err := os.Open(filepath.Join(s.dir, File)) // a read-only file
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	s.file = read
	if _, err := s.Add(Line{What: "two"}); err == nil {
		t.Error("it says that it wrote to a file that cannot be written to")
	}
	s.file = file
	s.add("two")
	if _, head, err := verify(bytes.NewReader(s.shut()), nil, nil); err != nil || head.N != 2 {
		t.Errorf("%v, %v", head, err)
	}
}

// TestLong checks that long fields of callers are truncated.
func TestLong(t *testing.T) {
	s := newScroll(t)
	s.add(strings.Repeat("é\n", 1<<20))
	text := s.shut()
	if _, head, err := verify(bytes.NewReader(text), nil, nil); err != nil || head.N != 1 || len(text) > maxLine/2 {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}
