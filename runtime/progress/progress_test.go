package progress

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

func seconds(n float64) int64 { return int64(n * float64(time.Second)) }

func at(step int64) Report { return Report{Step: step, HasStep: true} }

// TestRate checks that the rate is measured from the first report, or from the first one after a resume, to the last
// change of the step. A task that stops keeps its rate.
func TestRate(t *testing.T) {
	var m Model
	m.Observe(seconds(100), Report{Step: 900, HasStep: true, Total: 1000})
	if got := m.Rate(); got != 0 {
		t.Fatalf("one report gives a rate of %d", got)
	}
	m.Observe(seconds(102), at(920))
	if got := m.Rate(); got != 10_000 {
		t.Fatalf("20 steps in 2 s are %d thousandths a second", got)
	}
	m.Observe(seconds(500), at(920))
	if got := m.Rate(); got != 10_000 {
		t.Fatalf("a task that stopped has a rate of %d", got)
	}
	m.Observe(seconds(600), at(500)) // the task resumed
	if got := m.Message(); got.MilliRate != 0 || got.Step != 500 || got.Total != 1000 {
		t.Fatalf("after the resume: %v", got)
	}
	m.Observe(seconds(610), at(505))
	if got := m.Message(); got.MilliRate != 500 || got.ChangedNs != seconds(610) {
		t.Fatalf("5 steps in 10 s after the resume: %v", got)
	}
}

// TestRateOfLastMinutes checks that only the last minutes count for a job that became slower, and that the number of
// points stays bounded.
func TestRateOfLastMinutes(t *testing.T) {
	var m Model
	step := int64(0)
	for s := range 3600 {
		step += 100
		m.Observe(seconds(float64(s)), at(step))
	}
	for s := range 600 {
		step++
		m.Observe(seconds(float64(3600+s)), at(step))
	}
	if got := m.Rate(); got != 1000 {
		t.Fatalf("ten minutes at one step a second give a rate of %d", got)
	}
	if len(m.points) > maxPoints {
		t.Fatalf("%d points are kept", len(m.points))
	}
}

// TestMetricsBounded checks that a task shows at most 16 metrics, each with its newest value. Values that are too long
// or contain control characters are counted as garbage.
func TestMetricsBounded(t *testing.T) {
	var m Model
	for i := range 100 {
		m.Observe(1, Report{Metrics: []Metric{{fmt.Sprintf("m%d", i), "1"}}})
	}
	m.Observe(2, Report{Metrics: []Metric{{"m3", "2"}, {"m4", "\x1b[2J"}, {strings.Repeat("n", 65), "1"}}})
	got := m.Message()
	if len(got.Metrics) != messages.MaxMetrics || got.Metrics[3].Value != "2" || got.Metrics[4].Value != "1" {
		t.Fatalf("metrics: %v", got.Metrics)
	}
	if got.Garbage != 2 {
		t.Fatalf("%d reports were not understood, want 2", got.Garbage)
	}
}

// TestParseLine checks that the lines that programs usually write are understood, and that garbage changes nothing.
func TestParseLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"step":1200,"total":5000,"loss":2.1}`:              "1200/5000 loss=2.1",
		`{"step":1200.0}`:                                    "1200/0",
		`{"loss":NaN,"note":"a NaN \"NaN\"","lr":-Infinity}`: `- loss=NaN lr=-Infinity note=a NaN "NaN"`,
		`{"step":7,"deep":{"x":1},"list":[1],"no":null}`:     "7/0",
		`{}`:             "-",
		`{"step":-1}`:    "garbage",
		`{"step":1.5}`:   "garbage",
		`{"step":"7"}`:   "garbage",
		`{"step":1e300}`: "garbage",
		`{"total":null}`: "garbage",
		`[1]`:            "garbage",
		`null`:           "garbage",
		`step 5`:         "garbage",
		`{"step":1`:      "garbage",
		`{"s":"` + strings.Repeat("x", MaxLineBytes) + `"}`: "garbage",
	} {
		r, err := ParseLine([]byte(line))
		got := "garbage"
		if err == nil {
			got = "-"
			if r.HasStep {
				got = fmt.Sprintf("%d/%d", r.Step, r.Total)
			}
			for _, m := range r.Metrics {
				got += " " + m.Name + "=" + m.Value
			}
		}
		if got != want {
			t.Errorf("%.60s: %s, want %s", line, got, want)
		}
	}
}

// looks reads the file once and returns the lines.
func looks(t *testing.T, f *File, dir string) (lines []string) {
	t.Helper()
	if err := f.Read(dir, func(line []byte) { lines = append(lines, string(line)) }); err != nil {
		lines = append(lines, "error: "+err.Error())
	}
	return lines
}

func write(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Fatalf("lines %q, want %q", got, want)
	}
}

// TestFile checks that each complete line is read once, and an incomplete line only when it is complete. A file that
// the task rewrites is read from its beginning.
func TestFile(t *testing.T) {
	dir, f := t.TempDir(), &File{}
	path := filepath.Join(dir, FileName)
	expect(t, looks(t, f, dir))
	write(t, path, "one\ntwo\nthr")
	expect(t, looks(t, f, dir), "one", "two")
	expect(t, looks(t, f, dir))
	write(t, path, "ee\n")
	expect(t, looks(t, f, dir), "three")
	if err := os.WriteFile(path, []byte("again\n"), 0o644); err != nil { // shorter than before
		t.Fatal(err)
	}
	expect(t, looks(t, f, dir), "again")
	if err := os.WriteFile(path, []byte("longer than it was\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, looks(t, f, dir), "longer than it was")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(t, looks(t, f, dir))
	write(t, path, "new\n")
	expect(t, looks(t, f, dir), "new")
}

// TestFileBounded checks that only the last lines of a fast-growing file are read, each of them complete. A line
// without an end does not count as a line.
func TestFileBounded(t *testing.T) {
	dir, f := t.TempDir(), &File{}
	path := filepath.Join(dir, FileName)
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	write(t, path, text.String())
	got := looks(t, f, dir)
	if len(got) != maxLines || got[0] != fmt.Sprintf("line %d", 100_000-maxLines) || got[maxLines-1] != "line 99999" {
		t.Fatalf("read %q", got)
	}
	write(t, path, "next\n")
	expect(t, looks(t, f, dir), "next")
	write(t, path, strings.Repeat("x", 1<<20))
	if got := looks(t, f, dir); len(got) != 1 || len(got[0]) <= MaxLineBytes || len(got[0]) > tailBytes {
		t.Fatalf("a line of a megabyte gave %d lines", len(got))
	}
	write(t, path, "\nafter\n")
	expect(t, looks(t, f, dir), "after")
	dir, f = t.TempDir(), &File{}
	write(t, filepath.Join(dir, FileName), strings.Repeat("x", 1<<20))
	if got := looks(t, f, dir); len(got) != 1 || len(got[0]) > tailBytes {
		t.Fatalf("the first look at a line of a megabyte gave %d lines", len(got))
	}
}

// TestFileIsNoFile checks that a look follows or waits for nothing that a task puts in the place of the file, and that
// it reports each problem once.
func TestFileIsNoFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "secret\n")
	for what, put := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink(secret, path) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"a foreigner's": func(path string) error {
			if os.Getuid() != 0 {
				return os.Symlink(secret, path)
			}
			write(t, path, "foreign\n")
			return os.Chown(path, 4711, 4711)
		},
	} {
		dir, f := t.TempDir(), &File{}
		if err := put(filepath.Join(dir, FileName)); err != nil {
			t.Fatal(err)
		}
		if got := looks(t, f, dir); len(got) != 1 || !strings.HasPrefix(got[0], "error: ") {
			t.Fatalf("%s: %q", what, got)
		}
		expect(t, looks(t, f, dir))
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "scratch")
	if err := os.Symlink(filepath.Dir(secret), link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(filepath.Dir(secret), FileName), "followed\n")
	expect(t, looks(t, &File{}, link))
}

// written is an output that Search reads in the tests.
type written string

func (s written) tail(from int64, most int) (int64, []byte) {
	at := max(from, int64(len(s)-most))
	return at, []byte(s[at:])
}

// TestOutput checks that the last matching line counts, also if lines end in a carriage return, as progress bars write
// them. A number is never taken from a part of a line.
func TestOutput(t *testing.T) {
	o := NewOutput(`(\d+)/(\d+)`)
	text := ""
	for _, k := range []struct{ more, want string }{
		{"hello\nstep 1/10\nstep 2/10\n", "2/10"},
		{"bar 3/1", "none"},
		{"0\rbar 4/10\rbar 5/1", "4/10"},
		{"0\nother\n", "5/10"},
		{strings.Repeat("x", outputBytes) + "77/88\n", "none"},
		{strings.Repeat("x\n", outputBytes) + "6/10\n" + strings.Repeat("y\n", 1000), "6/10"},
		{"99999999999999999999/3\n", "none"},
	} {
		text += k.more
		got := "none"
		if r, ok := o.Search(written(text).tail); ok {
			got = fmt.Sprintf("%d/%d", r.Step, r.Total)
		}
		if got != k.want {
			t.Fatalf("after %.20q: %s, want %s", k.more, got, k.want)
		}
	}
	if NewOutput(`(`) != nil || NewOutput("") != nil {
		t.Fatal("what is no pattern is searched by")
	}
}

// TestLate checks when a task is late: after four usual times between two changes, after one and a half times the
// longest one, and at least after the floor. The first steps can take any time.
func TestLate(t *testing.T) {
	const floor = 60 * time.Second
	var m Model
	m.Observe(seconds(0), at(1))
	m.Observe(seconds(10), at(2))
	if m.Late(seconds(10_000), 0, floor) || m.Reports() {
		t.Error("a task with one change is late")
	}
	m.Observe(seconds(20), at(3))
	if m.Late(seconds(79), 0, floor) || !m.Late(seconds(80), 0, floor) || !m.Reports() {
		t.Error("steps of 10 s are not late after the floor")
	}
	if m.Late(seconds(100), seconds(50), floor) || !m.Late(seconds(110), seconds(50), floor) {
		t.Error("the time before the watch began counts")
	}
	for s := range 40 {
		m.Observe(seconds(float64(20+30*(s+1))), at(int64(4+s)))
	}
	last := m.last.at
	if m.Late(last+seconds(119), 0, floor) || !m.Late(last+seconds(120), 0, floor) {
		t.Error("steps of 30 s are not late after 120 s")
	}
	m.Observe(last+seconds(600), at(100))
	if m.Late(last+seconds(1499), 0, floor) || !m.Late(last+seconds(1500), 0, floor) {
		t.Error("a task that once took 600 s is not late after 900 s")
	}
}

// TestPause checks that a line announces a pause, that the next line ends it, and that a pause does not last for ever.
func TestPause(t *testing.T) {
	var m Model
	says := func(s float64, line string) {
		r, err := ParseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		m.Observe(seconds(s), r)
	}
	says(1, `{"step":7,"pause":"checkpoint"}`)
	if got := m.Pause(seconds(10)); got != "checkpoint" {
		t.Errorf("the pause is %q", got)
	}
	says(20, `{"step":7,"pause":"checkpoint"}`)
	if got := m.Pause(seconds(3602)); got != "" {
		t.Errorf("after an hour the pause is %q", got)
	}
	says(4000, `{"step":8}`)
	if got := m.Pause(seconds(4000)); got != "" {
		t.Errorf("the next line leaves %q", got)
	}
	says(4001, `{"pause":"`+strings.Repeat("x", 65)+`"}`)
	if got := m.Pause(seconds(4002)); got != "other" || len(m.metrics) > 0 {
		t.Errorf("a long reason gives %q", got)
	}
}

// TestPace checks the mean time for a step, and the mean of the times of the rank's own work.
func TestPace(t *testing.T) {
	var m Model
	at := int64(0)
	report := func(line string) {
		r, err := ParseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		m.Observe(at, r)
	}
	report(`{"step":0}`)
	if p := m.Pace(); p != nil {
		t.Fatalf("one step gives %v", p)
	}
	for step := range 40 {
		at += int64(250 * time.Millisecond)
		report(fmt.Sprintf(`{"step":%d,"work_ms":%d.5}`, step+1, 100+step/20))
		report(fmt.Sprintf(`{"step":%d,"work_ms":900}`, step+1)) // the same step again
	}
	if p := m.Pace(); p.Step != 40 || p.StepUs != 250_000 || p.WorkUs != 101_500 {
		t.Fatalf("40 steps give %v", p)
	}
	if len(m.Message().Metrics) != 0 {
		t.Error("the time of work is a metric too")
	}
	report(`{"step":3,"work_ms":7}`)
	report(`{"step":4,"work_ms":-7}`)
	report(`{"step":5,"work_ms":"x"}`)
	if p := m.Pace(); p.WorkUs != 7000 {
		t.Fatalf("after a resume: %v", p)
	}
}
