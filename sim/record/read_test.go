package record

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// seconds formats the important values of a job in seconds, which every format of records must give for the same job.
func seconds(j Job) string {
	waited := "-"
	if j.HasWaited {
		waited = fmt.Sprint(j.Waited.Seconds())
	}
	return fmt.Sprintf("line %d: %v+%v<%v gpus %d/%d %s@%s waited %s",
		j.Line, j.Submit.Seconds(), j.Duration.Seconds(), j.Limit.Seconds(), j.GPUs, j.Tasks, j.User, j.Queue, waited)
}

func read(t *testing.T, text string, s Input) *Trace {
	t.Helper()
	trace, err := Read(strings.NewReader(text), s)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func wants(t *testing.T, trace *Trace, want ...string) {
	t.Helper()
	var got []string
	for _, j := range trace.Jobs {
		got = append(got, seconds(j))
	}
	for _, b := range trace.Bad {
		got = append(got, b.String())
	}
	for _, a := range trace.Aside {
		got = append(got, fmt.Sprintf("%d %s", a.Rows, a.Why))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

const slurm = `JobID|User|Partition|Submit|Start|End|Timelimit|State|ElapsedRaw|ReqTRES|AllocTRES
101|ann|gpu|2026-10-01T08:00:00|2026-10-01T08:10:00|2026-10-01T09:10:00|1-00:00:00|COMPLETED|3600|cpu=8,gres/gpu=16|billing=8,cpu=8,gres/gpu:a100=16,gres/gpu=16,node=2
101.batch||||2026-10-01T08:10:00|2026-10-01T09:10:00||COMPLETED|3600||cpu=8,gres/gpu=8
101.0||||2026-10-01T08:10:00|2026-10-01T09:10:00||COMPLETED|3600||cpu=8,gres/gpu=16
102_7|bob|gpu|2026-10-01T08:00:01|2026-10-01T08:00:02|2026-10-01T08:00:32|30:00|TIMEOUT|30||gres/gpu:a100=2,gres/gpu:h100=1
102_[8-99]|bob|gpu|2026-10-01T08:00:01|Unknown|Unknown|30:00|PENDING|0|gres/gpu=3|
103|cy|gpu|2026-10-01T08:00:02|None|2026-10-01T08:30:00|UNLIMITED|CANCELLED by 1000|0|gres/gpu=4|
104|cy|cpu|2026-10-01T08:00:03|2026-10-01T08:00:04|2026-10-01T08:30:00|UNLIMITED|FAILED|1796|cpu=4|billing=4,cpu=4
`

// TestSacct checks the allocated GPUs, the run time and the requested limit of jobs. Steps are parts of jobs, elements
// of an array are jobs, and a job that never ran is skipped.
func TestSacct(t *testing.T) {
	start := float64(time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC).Unix())
	wants(t, read(t, slurm, Input{}),
		fmt.Sprintf("line 2: %v+3600<86400 gpus 16/0 ann@gpu waited 600", start),
		fmt.Sprintf("line 5: %v+30<1800 gpus 3/0 bob@gpu waited 1", start+1),
		"1 not over yet", "1 never ran", "1 without GPUs")
	few := "JobID|Submit|Start|End|ReqTRES|\n7|1790000000|1790000010|1790000070|gres/gpu=1|\n"
	if j := read(t, few, Input{}).Jobs[0]; j.Duration != time.Minute || j.Waited != 10*time.Second {
		t.Errorf("a header with too few columns was read as %+v", j)
	}
	for text, want := range map[string]string{
		"JobID|Submit|Elapsed\n": "column AllocTRES or ReqTRES is missing; present columns: " +
			"JobID, Submit, Elapsed",
		"JobID|Submit|Elapsed|ReqTRES\n1|soon|1:00|gres/gpu=1": `line 2: Submit: "soon" is not a time`,
		"JobID|Submit|Elapsed|ReqTRES\n1|5|long|gres/gpu=1":    `line 2: Elapsed: "long" is not a duration`,
		"JobID|Submit|Elapsed|ReqTRES\n1|5|1:00|gres/gpu=-1":   `line 2: ReqTRES: "gres/gpu=-1" is not a number of GPUs`,
	} {
		if _, err := Read(strings.NewReader(text), Input{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
}

// TestSlurmSpan reads durations as Slurm writes them.
func TestSlurmSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"00:30": 30 * time.Second, "30:00": 30 * time.Minute, "12:00:00": 12 * time.Hour,
		"1-00:00:01": 24*time.Hour + time.Second,
		"2-12":       60 * time.Hour, "01:02.345": 62 * time.Second, "": -1, "UNLIMITED": -1, "7": -1,
		"1:2:3:4": -1, "-1:00": -1,
	} {
		if got, ok := slurmSpan(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
}

// TestSWF checks that processors stand for GPUs, that -1 means unknown, and that parts of a job are no jobs.
func TestSWF(t *testing.T) {
	const log = "; Version: 2.2\n; MaxProcs: 128\n\n" +
		"1 0 10 100 16 -1 -1 16 200 -1 1 3 1 -1 2 -1 -1 -1\n2 5 -1 60 -1 -1 -1 3 -1 -1 0 -1 1 -1 -1 -1 -1 -1\n" +
		"3 6 0 0 8 -1 -1 8 60 -1 5 1 1 -1 -1 -1 -1 -1\n4 7 0 9 8 -1 -1 8 60 -1 3 1 1 -1 -1 -1 -1 -1\n"
	wants(t, read(t, log, Input{ProcsToGPU: 8}),
		"line 4: 0+100<200 gpus 2/0 user-3@queue-2 waited 10", "line 5: 5+60<0 gpus 1/0 @ waited -",
		"1 never ran", "1 parts of a job with its own line")
	if j := read(t, log, Input{}).Jobs[0]; j.GPUs != 16 {
		t.Errorf("%+v", j)
	}
	for text, want := range map[string]string{
		"; x\n1 2 3": "line 2: 3 fields are too few",
		"; x\n1 x 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1":  `field 2: "x" is not a valid number`,
		"; x\n1 0 0 1 -1 1 1 -1 1 1 1 1 1 1 1 1 1":  "no processors",
		"; x\n1 0 0 1e18 1 1 1 1 1 1 1 1 1 1 1 1 1": "is not a valid number",
	} {
		if _, err := Read(strings.NewReader(text), Input{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
}

const lived = `{
  "apiVersion": "synapse/v1",
  "kind": "History",
  "items": [
    {"id": "j1", "owner": "ann", "queue": "night", "submittedAt": "2026-10-01T08:00:00Z", "submittedUnixMs": 1000250, "waitSeconds": 1.5,
      "gpuSeconds": 320, "timeLimitSeconds": 60, "gang": {"tasks": 2, "gpusPerTask": 8}, "attempts": [{"tasks": 2, "gpus": 16}]},
    {"id": "j2", "owner": "bob", "queue": "default", "submittedUnixMs": 1000500, "waitSeconds": 0,
      "gpuSeconds": 36, "gang": {"gpus": 12, "split": "whole"}, "attempts": [{"tasks": 1, "gpus": 12}, {"tasks": 2, "gpus": 12}]},
    {"id": "j3", "submittedUnixMs": 1000500, "gpuSeconds": 0, "attempts": []},
    {"id": "j4", "submittedUnixMs": 1000500, "waitSeconds": 1, "gpuSeconds": 2, "attempts": [{"tasks": 1, "gpus": 0.5}]},
    {"id": "j5", "submittedUnixMs": 1000500, "waitSeconds": 1, "gpuSeconds": 0, "attempts": [{"tasks": 1, "gpus": 0}]},
    {"id": "j6", "submittedAt": "1970-01-01T00:20:00Z", "waitSeconds": 2, "gpuSeconds": 12, "attempts": [{"tasks": 3, "gpus": 3}]}
  ]
}`

// TestHistory checks that a job keeps its shape and runs as long as its GPUs were held.
func TestHistory(t *testing.T) {
	wants(t, read(t, lived, Input{}),
		"line 5: 1000.25+20<60 gpus 16/2 ann@night waited 1.5", "line 7: 1000.5+3<0 gpus 12/0 bob@default waited 0",
		"line 12: 1200+4<0 gpus 3/3 @ waited 2", "1 never ran", "1 with a part of a GPU", "1 without GPUs")
	for text, want := range map[string]string{
		"{}":                     "no items",
		`{"items": 3}`:           "items is not a list",
		`{"runs": [{}]}`:         "not the output of `history -o json`",
		`{"items": [{"id": 3}]}`: "1 of 1 rows are invalid, for example line 1",
		`{"items": [` + "\n3]}":  "1 of 1 rows are invalid, for example line 2",
		`{"items": [{"id":`:      "unexpected EOF",
		`{"items": [{"id":"j","submittedUnixMs":5,"waitSeconds":1,"gpuSeconds":-4,"attempts":[{"tasks":1,"gpus":1}]}]}`: "job j held 1 GPUs for -4 seconds",
	} {
		if _, err := Read(strings.NewReader(text), Input{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
}

// TestPrinted checks that a record which is read and written is read again as the same, starting at its first job.
func TestPrinted(t *testing.T) {
	for name, text := range map[string]string{"sacct": slurm, "history": lived} {
		was := read(t, text, Input{Format: name})
		var b bytes.Buffer
		if err := WriteCSV(&b, was); err != nil {
			t.Fatal(err)
		}
		again := read(t, b.String(), Input{})
		for i, j := range again.Jobs {
			k := was.Jobs[i]
			k.Submit, k.Line = k.Submit-was.Jobs[0].Submit, j.Line
			if seconds(j) != seconds(k) {
				t.Errorf("%s: got %s, want %s", name, seconds(j), seconds(k))
			}
		}
	}
}

// TestCluster reads nodes of different sizes, and the nodes of a running cluster with their places.
func TestCluster(t *testing.T) {
	c, _, err := ReadCluster(strings.NewReader("nodes,gpus,racks\n5,8,2\n1,4,\n"))
	if err != nil || fmt.Sprint(c) != "{[3 2 1] [8 8 8 8 8 4]}" || c.Sum() != 44 || c.Largest() != 8 || c.Alike() {
		t.Errorf("%v, %v", c, err)
	}
	c, without, err := ReadCluster(strings.NewReader(`{"items": [
		{"metadata": {"id": "n2", "topology": [{"level": "zone", "domain": "a"}, {"level": "rack", "domain": "r2"}]}, "status": {"total": {"milliGpu": 4000}}},
		{"metadata": {"id": "n3", "topology": [{"level": "zone", "domain": "a"}, {"level": "rack", "domain": "r1"}]}, "status": {"total": {"milliGpu": 8000}}},
		{"metadata": {"id": "n4"}, "status": {"total": {"milliCpu": 8000}}},
		{"metadata": {"id": "n1", "topology": [{"level": "zone", "domain": "a"}, {"level": "rack", "domain": "r2"}]}, "status": {"total": {"milliGpu": 2000}}}]}`))
	if err != nil || without != 1 || fmt.Sprint(c) != "{[1 2] [8 2 4]}" {
		t.Errorf("%v, %d, %v", c, without, err)
	}
	for text, want := range map[string]string{
		"nodes\n1\n":                "column gpus is missing",
		"nodes,gpus\n":              "at least one node",
		"nodes,gpus\n1,65\n":        "node 1 has 65 GPUs",
		"nodes,gpus\n1,0\n":         "node 1 has 0 GPUs",
		"nodes,gpus,racks\n1,1,2":   "line 2: 1 nodes cannot fill 2 racks",
		"nodes,gpus\n1000000,8\n":   "line 2: nodes",
		"nodes,gpus\n100000,8\n1,8": "at most 100000",
		"{":                         "not the output of `get nodes -o json`",
		`{"items": [{"metadata": {"id": "n1", "place": []}}]}`: "use metadata.topology",
	} {
		if _, _, err := ReadCluster(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, and not %s", text, err, want)
		}
	}
}

// TestSynthetic checks that the same parameters give the same bytes on every host and in every version. Otherwise
// published results would refer to another workload. It also checks the properties that make a workload hard.
func TestSynthetic(t *testing.T) {
	var b bytes.Buffer
	s := DefaultSynthetic()
	trace := s.Trace()
	if err := WriteCSV(&b, trace); err != nil {
		t.Fatal(err)
	}
	const want = "3516d0b7403597e4"
	if got := fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))[:16]; got != want {
		t.Errorf("the hash of the bytes is %s, want %s", got, want)
	}
	var byDay, weekend, all, gangs, limited int
	var work, long float64
	for _, j := range trace.Jobs {
		hour, day := int(j.Submit.Hours())%24, int(j.Submit.Hours())/24%7
		if hour >= 8 && hour < 20 {
			byDay++
		}
		if day >= 5 {
			weekend++
		}
		if j.GPUs > 8 {
			gangs++
		}
		if j.Limit > 0 {
			limited++
			if j.Duration > j.Limit {
				t.Errorf("job %s exceeds its time limit", seconds(j))
			}
		}
		all++
		work += j.Duration.Hours() * float64(j.GPUs)
		if j.Duration > 8*time.Hour {
			long += j.Duration.Hours() * float64(j.GPUs)
		}
	}
	if all != s.Jobs || byDay*10 < all*6 || weekend*7 > all || gangs*100 < all*2 || limited*10 < all*8 || long < work/4 {
		t.Errorf("of %d jobs %d were submitted by day, %d at weekends, %d are gangs, %d have limits; "+
			"of %.0f GPU-hours %.0f are in long jobs",
			all, byDay, weekend, gangs, limited, work, long)
	}
	if err := s.Set("jobs", 7); err != nil || len(s.Trace().Jobs) != 7 || s.Set("gangs", 101) == nil ||
		len(SyntheticWords()) != 6 {
		t.Errorf("%v, %+v", err, s)
	}
}

// FuzzRead checks that any file is read or rejected, and that a record that was read can be replayed.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		slurm, lived, rows(3, "1,2"), "; swf\n1 0 10 100 16 -1 -1 16 200 -1 1 3 1 -1 2 -1 -1 -1\n",
	} {
		f.Add([]byte(text), "")
	}
	f.Fuzz(func(t *testing.T, text []byte, format string) {
		trace, err := Read(bytes.NewReader(text), Input{Format: format})
		if err != nil {
			return
		}
		for _, j := range trace.Jobs {
			if j.Submit < 0 || j.Duration <= 0 || j.Limit < 0 || j.GPUs < 1 || j.Tasks < 0 ||
				j.Tasks > 0 && j.GPUs%j.Tasks != 0 || j.Waited < 0 {
				t.Fatalf("%+v", j)
			}
		}
	})
}
