package record

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rows returns a record of n good rows, followed by others.
func rows(good int, others ...string) string {
	text := "gpus, submit_s,job_id,duration_s\n"
	for i := range good {
		text += fmt.Sprintf("4,%d.5,j%d,60\n", i, i)
	}
	return text + strings.Join(others, "\n")
}

// TestReadCSV reads columns by their names, compressed or not, with limits from a second file. A bad row is reported by
// its line.
func TestReadCSV(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("job_id,requested_walltime_s\nj1,90\nj2,\nj3,-4\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	trace, err := ReadCSV(strings.NewReader(rows(200, "0,9,x,1", "8,-1,y,1")), &packed)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(trace.Jobs); n != 200 {
		t.Fatalf("%d jobs", n)
	}
	if j := trace.Jobs[1]; j.Submit != 1500*time.Millisecond || j.Duration != time.Minute || j.GPUs != 4 ||
		j.Limit != 90*time.Second || j.Line != 3 {
		t.Errorf("%+v", j)
	}
	if j := trace.Jobs[2]; j.Limit != 0 {
		t.Errorf("%+v", j)
	}
	want := "[line 202: gpus: 0 is too small: a job has at least 1 line 203: submit_s: -1 is negative]"
	if got := fmt.Sprint(trace.Bad); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRefused rejects files that are no record, or a bad one.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "no header",
		"submit_s,gpus\n1,1\n":       "column duration_s is missing; present columns: submit_s, gpus",
		"submit_s,gpus,duration_s\n": "the record has a header but no rows",
		rows(50, "1.5,1,a,1"):        `1 of 51 rows are invalid, for example line 52: gpus: "1.5" is not an integer`,
		rows(50, "1,soon,a,1"):       `1 of 51 rows are invalid, for example line 52: submit_s: "soon" is not a number of seconds`,
		rows(50, "1,NaN,a,1"):        "is not a number of seconds",
		rows(50, "1,1e30,a,1"):       "exceed 200 years",
		rows(50, "1,1,a,0"):          "duration_s: must not be 0",
	} {
		if _, err := ReadCSV(strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
}

// TestTake checks that rows are ordered by submit time, that times start at the first job, and that arrivals are scaled
// to an offered load.
func TestTake(t *testing.T) {
	trace := &Trace{Jobs: []Job{
		{Submit: 300 * time.Second, Duration: 40 * time.Second, GPUs: 2, HasWaited: true},
		{Submit: 100 * time.Second, Duration: 60 * time.Second, GPUs: 2},
		{Submit: 200 * time.Second, Duration: 100 * time.Second, GPUs: 1},
	}}
	jobs, err := trace.Take(Cut{First: 1, Timescale: 2}, 4)
	if err != nil || len(jobs) != 2 || jobs[0].GPUs != 1 || jobs[0].Submit != 0 || jobs[1].Submit != 200*time.Second {
		t.Errorf("%v, %v", jobs, err)
	}
	// 300 GPU-seconds at half of 4 GPUs take 150 s.
	jobs, err = trace.Take(Cut{Load: 0.5}, 4)
	// The waiting times were measured under another load.
	if err != nil || jobs[2].Submit.Round(time.Millisecond) != 150*time.Second || jobs[2].HasWaited {
		t.Errorf("%v, %v", jobs, err)
	}
	if _, err := trace.Take(Cut{First: 3}, 4); err == nil {
		t.Error("a record without rows was accepted")
	}
}
