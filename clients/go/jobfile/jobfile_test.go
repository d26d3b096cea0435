package jobfile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

const full = `
apiVersion: synapse/v1
kind: Job
metadata: {name: llama, labels: {team: nlp}}
spec:
  queue: research
  priority: 100
  gang: {replicas: 8}
  resources: {gpu: 8, gpuType: h100, cpu: 64, memory: 512Gi, shm: 64Gi, disk: 200Gi}
  topology: {required: zone, preferred: rack, patience: 5m}
  nodeSelector: {pool: a}
  nodes: [n1, n2]
  exclude: [n3]
  image: reg.example/train@sha256:0f
  command: ["torchrun", "train.py", 3]
  workdir: /work
  user: alice
  network: none
  launcher: torchrun
  warn: usr1@2m
  progress: {pattern: 'step (\d+)/(\d+)', kubeflow: off}
  hang: {then: restart, floor: 90s, dump: USR1}
  preemptible: false
  checkpoint: 10m
  env: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: 010, EMPTY: ""}
  secrets: [{name: HF_TOKEN, env: true, fromEnv: TOKEN}, {name: key.pem, fromFile: a.pem}]
  mounts: [{source: /data, target: /data, readOnly: true}]
  after: [train-7f, prep:any]
  array: 0-8:2,20%10
  begin: 2026-11-24T08:00:00Z
  deadline: 2026-11-26T08:00:00Z
  timeLimit: 24h
  prepareTimeout: 30m
  stop: {signal: SIGTERM, grace: 60s}
  restart: {limit: 3, backoff: 10s, inPlace: true, grace: 4s, swapWait: 2m, spares: 2}
  lostGrace: 0s
  stopWhenLost: 0s
`

func fullSpec() *messages.JobSpec {
	return &messages.JobSpec{
		Name: "llama", Labels: []*messages.Label{{Key: "team", Value: "nlp"}}, Queue: "research", Priority: 100,
		Gang:    &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8},
		Each:    &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000},
		GpuType: "h100", ShmBytes: 64 << 30, DiskBytes: 200 << 30,
		Topology:     &messages.TopologySpec{Required: "zone", Preferred: "rack", PatienceMs: 300_000},
		NodeSelector: []*messages.Label{{Key: "pool", Value: "a"}},
		Nodes:        []string{"n1", "n2"}, Exclude: []string{"n3"},
		Image: "reg.example/train@sha256:0f", Command: []string{"torchrun", "train.py", "3"}, Workdir: "/work",
		User: "alice", Network: messages.Network_NETWORK_NONE, Launcher: messages.Launch_LAUNCH_TORCHRUN,
		Warn:           &messages.WarnSpec{Signal: 10, AheadMs: 120_000},
		Hang:           &messages.HangSpec{Then: messages.HangAction_HANG_ACTION_RESTART, FloorMs: 90_000, Dump: 10},
		Progress:       &messages.ProgressSpec{Pattern: `step (\d+)/(\d+)`, KubeflowOff: true},
		NotPreemptible: true, CheckpointMs: 600_000,
		Env: []*messages.EnvVar{{Name: "NCCL_DEBUG", Value: "WARN"}, {Name: "OMP_NUM_THREADS", Value: "010"},
			{Name: "EMPTY"}},
		Secrets: []*messages.Secret{{Name: "HF_TOKEN", Env: true}, {Name: "key.pem"}},
		Mounts:  []*messages.Mount{{Source: "/data", Target: "/data", ReadOnly: true}}, BeginUnixMs: 1_795_507_200_000,
		DeadlineUnixMs: 1_795_680_000_000,
		After:          []*messages.After{{Job: "train-7f"}, {Job: "prep", End: messages.AfterEnd_AFTER_END_ANY}},
		Array: &messages.ArraySpec{
			Indices: []*messages.IndexRange{{Last: 8, Step: 2}, {First: 20, Last: 20}}, Most: 10,
		},
		TimeLimitMs: 86_400_000, PrepareTimeoutMs: 1_800_000,
		Stop: &messages.StopSpec{Signal: 15, GraceMs: 60_000},
		Restart: &messages.RestartSpec{Limit: 3, BackoffMs: 10_000, InPlace: true, InPlaceGraceMs: 4000,
			SwapWaitMs: 120_000, Spares: 2},
	}
}

// scripted is a job file that contains a script.
const scripted = `
apiVersion: synapse/v1
kind: Job
metadata: {name: a}
spec:
  image: host
  resources: {cpu: 1}
  checkpoint: {every: 10m, signal: USR1, grace: 2m, ack: exit, commit: rank0}
  scriptName: train.sh
  args: ["--lr", 3]
  script: |
    #!/bin/sh
      exec  train
`

func scriptedSpec(t *testing.T, text, name string) *messages.JobSpec {
	s, err := messages.NewScript(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.Args = []string{"--lr", "3"}
	return &messages.JobSpec{Name: "a", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Script: s, Each: &messages.Resources{MilliCpu: 1000}, CheckpointMs: 600_000, Checkpoint: &messages.CheckpointSpec{
			Signal: 10, GraceMs: 120_000, Ack: messages.SaveAck_SAVE_ACK_EXIT, Commit: messages.SaveCommit_SAVE_COMMIT_RANK0,
		}}
}

func TestEveryKeyIsRead(t *testing.T) {
	wantSpec(t, full, fullSpec())
	wantSpec(t, scripted, scriptedSpec(t, "#!/bin/sh\n  exec  train\n", "train.sh"))
	read := full + scripted
	for _, s := range sections() {
		for _, k := range s.keys {
			if k.read != nil && !strings.Contains(read, k.name+":") && s.path != "spec.gang" && s.path != "spec.gang.total" {
				t.Errorf("%s is not in the full example", join(s.path, k.name))
			}
		}
	}
}

func wantSpec(t *testing.T, text string, want *messages.JobSpec) {
	t.Helper()
	got, err := parseOne([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("read\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
}

func TestJSONIsReadToo(t *testing.T) {
	wantSpec(t, "{\n\t\"apiVersion\": \"synapse/v1\", \"kind\": \"Job\",\n\t\"metadata\": {\"name\": \"a\"},\n"+
		"\t\"spec\": {\"image\": \"host\", \"gang\": {\"total\": {\"gpu\": 64, \"memory\": \"4Ti\"}}, \"command\": "+
		"[\"a\\u00e9\\/\", \"\\ud83d\\ude00 \\\\ud83d\\t\"]}\n}",
		&messages.JobSpec{Name: "a", Image: "host", Command: []string{"aé/", "😀 \\ud83d\t"},
			Gang: &messages.GangSpec{Total: &messages.Resources{MilliGpu: 64_000, MemoryBytes: 4 << 40},
				Split: messages.Split_SPLIT_WHOLE}})
}

func TestDefaults(t *testing.T) {
	const head = "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  image: /i\n"
	wantSpec(t, head+"  resources: {gpu: 0.5}\n", &messages.JobSpec{Name: "a", Image: "/i",
		Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: &messages.Resources{MilliGpu: 500}})
	for _, nothing := range []string{"", "  resources: {}\n", "  resources: {disk: 1Gi}\n"} {
		got, err := parseOne([]byte(head + nothing))
		if err != nil || got.GetEach().GetMilliCpu() != messages.DefaultMilliCPU {
			t.Errorf("a job that asks for nothing gets %v (%v)", got.GetEach(), err)
		}
	}
	wantSpec(t, head+"  gang: {total: {cpu: 16}, split: any}\n", &messages.JobSpec{Name: "a", Image: "/i",
		Gang: &messages.GangSpec{Total: &messages.Resources{MilliCpu: 16_000}, Split: messages.Split_SPLIT_ANY}})
}

// TestNumbersInUnits checks that plain counts get a unit, and that all other numbers stay unchanged.
func TestNumbersInUnits(t *testing.T) {
	for _, c := range []struct{ field, text, want string }{
		{"time_limit_ms", "is 172800000, outside 0 to 316224000000", "is 48h, outside 0s to 87840h"},
		{"time_limit_ms", "is 48h0m0s, and the most in q-7 is 1h0m0s", "is 48h0m0s, and the most in q-7 is 1h0m0s"},
		{"time_limit_ms", "use at most 1h0m0s", "use at most 1h0m0s"},
		{"time_limit_ms", "is gone, and the maximum in queue 8 is 2h", "is gone, and the maximum in queue 8 is 2h"},
		{"stop_when_lost_ms", "use at least 10000, or 0 for never", "use at least 10s, or 0 for never"},
		{"spec.shm_bytes", "is 1048576, and its share of a machine's, 524288", "is 1Mi, and its share of a machine's, 512Ki"},
		{"each.memory_bytes", "is 1024, less than 524288", "is 1Ki, less than 512Ki"},
		{"begin_unix_ms", "is 2026-11-24T08:00:00Z, and is past", "is 2026-11-24T08:00:00Z, and is past"},
		{"each.milli_gpu", "is a fraction of a GPU for each of 8 tasks", "is a fraction of a GPU for each of 8 tasks"},
		{"each.milli_cpu", "is -1000, outside 0 to 4500", "is -1, outside 0 to 4.5"},
		{"step_ms", "makes more than 100 steps", "makes more than 100 steps"},
	} {
		got := InUnits(c.field, c.text)
		if got != c.want || InUnits(c.field, got) != got && strings.HasSuffix(c.field, "_ms") {
			t.Errorf("%s: %q becomes %q, want %q", c.field, c.text, got, c.want)
		}
	}
}

// TestRefusals checks the error text of each mistake. `go test -rewrite` accepts the current texts.
func TestRefusals(t *testing.T) {
	datadriven.RunTest(t, "testdata/refusals.txt", func(t *testing.T, d *datadriven.TestData) string {
		text := d.Input + "\n"
		if d.HasArg("spec") {
			// The test data lost the indent of the first line.
			text = "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  " + text
			if !strings.Contains(d.Input, "image:") {
				text += "  image: /i\n"
			}
			if !strings.Contains(d.Input, "resources:") && !strings.Contains(d.Input, "gang:") {
				text += "  resources: {cpu: 1}\n"
			}
		}
		switch d.Cmd {
		case "tab":
			text = strings.ReplaceAll(text, "»", "\t")
		case "quoted":
			text = strings.ReplaceAll(strings.ReplaceAll(text, `\x00`, "\x00"), `\xff`, "\xff")
		}
		spec, err := parseOne([]byte(text))
		if err == nil {
			return "accepted: " + strings.Join(strings.Fields(spec.String()), " ") + "\n" // the spaces of String vary by build
		}
		problems, is := err.(Problems)
		if !is {
			t.Fatalf("%T: %v", err, err)
		}
		return strings.Join(problems.Lines("job.yaml"), "\n") + "\n"
	})
}

func TestLargeAndDeepAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"large":          strings.Repeat("#", MaxBytes+1),
		"deep":           "a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"very deep":      strings.Repeat("[", MaxBytes),
		"very deep list": strings.Repeat("- ", MaxBytes/2),
		"many keys":      strings.Repeat("a: 1\n", MaxBytes/5),
		"many others":    manyKeys(""),
		"many of spec":   "spec:\n" + manyKeys("  "),
		"many mounts":    "spec:\n  mounts:\n" + strings.Repeat("  - {a: b}\n", MaxBytes/12),
	} {
		began := time.Now()
		_, err := Parse([]byte(text))
		if took := time.Since(began); took > pace.Of(30*time.Second) {
			t.Errorf("%s took %s", name, took)
		}
		if err == nil {
			t.Errorf("%s was accepted", name)
		} else if len(err.Error()) > 4000 {
			t.Errorf("%s: %d bytes of complaint", name, len(err.Error()))
		}
	}
}

// manyKeys returns as many unknown keys as a file can contain.
func manyKeys(indent string) string {
	var b strings.Builder
	for i := 0; b.Len() < MaxBytes-100; i++ {
		fmt.Fprintf(&b, "%sk%d: 1\n", indent, i)
	}
	return b.String()
}

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		parse func(string) (int64, error)
		text  string
		want  int64 // -1: refused
	}{
		{ParseCPU, "4", 4000}, {ParseCPU, "0.5", 500}, {ParseCPU, "500m", 500}, {ParseCPU, "1.25", 1250}, {ParseCPU, "0", 0},
		{ParseCPU, "0.0001", -1}, {ParseCPU, "0.5m", -1}, {ParseCPU, "-1", -1}, {ParseCPU, "+1", -1}, {ParseCPU, "1e3", -1},
		{ParseCPU, "0x10", -1},
		{ParseCPU, ".5", -1}, {ParseCPU, "5.", -1}, {ParseCPU, "NaN", -1}, {ParseCPU, ".inf", -1}, {ParseCPU, "", -1},
		{ParseCPU, "4Gi", -1}, {ParseCPU, "1_000", -1},
		{ParseCPU, "9223372036854775807", -1}, {ParseCPU, "99999999999999999999", -1},
		{ParseMemory, "512Gi", 512 << 30}, {ParseMemory, "1.5Gi", 3 << 29}, {ParseMemory, "64Ki", 64 << 10},
		{ParseMemory, "4Ti", 4 << 40},
		{ParseMemory, "0.1Ki", 103}, {ParseMemory, "1073741824", 1 << 30}, {ParseMemory, "0", 0},
		{ParseMemory, "8 GB", -1}, {ParseMemory, "8GB", -1}, {ParseMemory, "8G", -1}, {ParseMemory, "64", -1},
		{ParseMemory, "-8Gi", -1},
		{ParseMemory, "9999999Pi", -1}, {ParseMemory, "8gi", -1}, {ParseMemory, "2000000.5", -1},
		{ParseGPU, "8", 8000}, {ParseGPU, "0.5", 500}, {ParseGPU, "h100", -1},
		{ParseDuration, "5m", 300_000}, {ParseDuration, "24h", 86_400_000}, {ParseDuration, "1h30m", 5_400_000},
		{ParseDuration, "2d", 172_800_000},
		{ParseDuration, "1.5s", 1500}, {ParseDuration, "250ms", 250}, {ParseDuration, "0", 0}, {ParseDuration, "0s", 0},
		{ParseDuration, "2-0", 172_800_000}, {ParseDuration, "1-12:30", 131_400_000},
		{ParseDuration, "1-02:03:04", 93_784_000},
		{ParseDuration, "24:00:00", 86_400_000}, {ParseDuration, "30:00", -1}, {ParseDuration, "1-", -1},
		{ParseDuration, "1-0:60", -1},
		{ParseDuration, "60", -1}, {ParseDuration, "-5m", -1}, {ParseDuration, "5 m", -1}, {ParseDuration, "5min", -1},
		{ParseDuration, "0.1ms", -1}, {ParseDuration, "", -1},
		{ParseDuration, "9999999999d9999999999d", 9999999999 * 86_400_000 * 2},
		{ParseDuration, strings.Repeat("9999999999d", 3000), -1},
	} {
		got, err := c.parse(c.text)
		if _, is := err.(*Problem); err != nil && !is {
			t.Errorf("%q: %T is no Problem", c.text, err)
		}
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%q is %d, want %d (%v)", c.text, got, c.want, err)
		}
	}
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"llama-7b": "llama-7b", "LLaMA_7B": "llama-7b", "träin.py": "trin-py", "": "", "é": "",
		strings.Repeat("a", 70): strings.Repeat("a", 63),
	} {
		if got := messages.NameOf(in); got != want {
			t.Errorf("Name(%q) is %q, want %q", in, got, want)
		}
	}
}

// TestFormatIsReadBack formats jobs as YAML and as JSON, and expects to parse the same jobs.
func TestFormatIsReadBack(t *testing.T) {
	total := fullSpec()
	total.Gang, total.Each, total.Env = &messages.GangSpec{Total: &messages.Resources{MilliCpu: 1500,
		MemoryBytes: 1<<40 + 1, MilliGpu: 2000}, Split: messages.Split_SPLIT_ANY}, nil, nil
	total.Restart.Spares = 0 // they need one task per node
	odd := fullSpec()
	odd.Each = &messages.Resources{MilliCpu: 1, MemoryBytes: messages.MinTaskMemoryBytes + 1}
	odd.GpuType, odd.ShmBytes, odd.DiskBytes, odd.Image, odd.Command = "", 0, 0, "true",
		[]string{"", "no", "1", "a\nb", "#", "- x", "{}", "null"}
	odd.Env = []*messages.EnvVar{{Name: "A", Value: "yes"}, {Name: "B", Value: " x "}}
	odd.Priority, odd.PriorityZero = 0, true
	odd.TimeLimitMs, odd.LostGraceMs = 5_400_001, 90_061_001
	all := []*messages.JobSpec{fullSpec(), total, odd}
	for _, text := range []string{
		"#!/bin/sh", "#!/bin/sh\n", "#!/bin/sh\n\n\n", "#!/usr/bin/env python3\n\tif x:\n\t\tpass  \n \n",
		"#!/bin/sh\necho \x1b[1m\x07\f\v \r \u0085\u2028é😀\n",
		"#!/bin/sh\n---\n# key: value\n...\n%YAML\n",
		"#!/bin/sh\n" + strings.Repeat("echo a long line of a long script: \"quoted\" 'twice'\n", 4000),
	} {
		all = append(all, scriptedSpec(t, text, messages.DefaultScriptName))
	}
	for _, want := range all {
		want.Env = sortedEnv(want.Env)
		text, err := yaml.Marshal(Format(want))
		if err != nil {
			t.Fatal(err)
		}
		wantSpec(t, string(text), want)
		if text, err = json.Marshal(Format(want)); err != nil {
			t.Fatal(err)
		}
		wantSpec(t, string(text), want)
	}
}

// sortedEnv sorts variables in the order of a formatted file.
func sortedEnv(env []*messages.EnvVar) []*messages.EnvVar {
	sorted := append([]*messages.EnvVar(nil), env...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j].Name < sorted[j-1].Name; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	return sorted
}

// FuzzParse checks that any bytes lead to an error text, or to a valid job whose formatted file parses as the
// same job.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add(
		[]byte(
			"apiVersion: synapse/v1\nkind: Job\nmetadata: {name: a}\nspec: {image: host, gang: {total: {cpu: 1.5, memory: " +
				"4Ti}, split: any}}"))
	f.Add([]byte("a: &x [*x]\n---\nb: !!str {<<: *y}"))
	f.Add([]byte("? - - [{\n: |2-\n\t\"\\ud83d"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := parseOne(data)
		if err != nil {
			problems, is := err.(Problems)
			if !is || len(problems) == 0 || len(problems) > maxProblems {
				t.Fatalf("%T with %d problems", err, len(problems))
			}
			for _, line := range problems.Lines("f") {
				if strings.Contains(line, "\n") {
					t.Errorf("a problem of several lines: %q", line)
				}
			}
			return
		}
		if err := spec.Validate(); err != nil {
			t.Fatalf("an invalid job came out: %v", err)
		}
		spec.Env = sortedEnv(spec.Env)
		text, err := yaml.Marshal(Format(spec))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > MaxBytes {
			return
		}
		again, err := parseOne(text)
		if err != nil {
			t.Fatalf("the file of a job is refused: %v\n%s", err, text)
		}
		if !sameButLabels(spec, again) {
			t.Fatalf("%v\nis written\n%s\nand read\n%v", spec, text, again)
		}
	})
}

// sameButLabels compares two jobs, ignoring the order of labels and empty parts.
func sameButLabels(a, b *messages.JobSpec) bool {
	x, y := Format(a), Format(b)
	left, _ := json.Marshal(x)
	right, _ := json.Marshal(y)
	return string(left) == string(right)
}

// parseOne reads a file of one job.
func parseOne(data []byte) (*messages.JobSpec, error) {
	specs, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return specs[0], nil
}

// TestSeveralDocuments checks that each document is a job, that all jobs are checked, and that errors have
// the right line.
func TestSeveralDocuments(t *testing.T) {
	const one = "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: NAME}\nspec: {image: /i, resources: {cpu: 1}}\n---\n"
	specs, err := Parse([]byte(strings.ReplaceAll(one, "NAME", "a") + strings.ReplaceAll(one, "NAME", "b")))
	if err != nil || len(specs) != 2 || specs[0].GetName() != "a" || specs[1].GetName() != "b" {
		t.Errorf("%v: %v", specs, err)
	}
	_, err = Parse([]byte(strings.ReplaceAll(one, "NAME", "a b") + strings.ReplaceAll(one, "cpu: 1", "cpus: 1")))
	if err == nil || !strings.Contains(err.Error(), "3:18: metadata.name") ||
		!strings.Contains(err.Error(), "9:31: spec.resources.cpus") {
		t.Errorf("not told of both: %v", err)
	}
	if _, err := Parse([]byte(strings.Repeat(strings.ReplaceAll(one, "NAME", "a"), maxDocuments+1))); err == nil ||
		!strings.Contains(err.Error(), "more than 1000 documents") {
		t.Errorf("so many: %v", err)
	}
}
