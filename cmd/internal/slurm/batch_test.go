package slurm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file checks that each option of sbatch has Slurm's effect, or is refused by its name.

var here = Submitter{Dir: "/home/ann/run", Host: "login1", User: "ann", As: "me",
	Env: []string{"PATH=/opt/bin:/bin", "TERM=xterm", "KEY=v",
		"SLURM_OLD=1", "SYNAPSE_TOKEN=secret"}}

// batch returns the job of a command line and an optional script.
func batch(script string, words ...string) (*messages.JobSpec, *Batch, error) {
	read := func(string) ([]byte, error) { return []byte(script), nil }
	if script != "" {
		words = append(words, "train.sh", "--epochs", "3")
	}
	b, text, args, err := Parse(words, func(string) (string, bool) { return "", false }, read)
	if err != nil {
		return nil, nil, err
	}
	from := here
	if wants, _ := b.WantsWhole(); wants {
		from.Whole = &sbatch.Amount{MilliCPU: 96_000, MemoryBytes: 1 << 40, MilliGPU: 8000}
	}
	spec, err := b.Job(text, args, from)
	return spec, b, err
}

// shortly formats the non-default values of a job on one line.
func shortly(s *messages.JobSpec) string {
	f := jobfile.Format(s)
	parts := []string{fmt.Sprint(f.Spec.Gang.Replicas)}
	add := func(name string, value any) {
		if text := strings.Trim(fmt.Sprint(value), "[]"); text != "" && text != "0" && text != "<nil>" {
			parts = append(parts, name+text)
		}
	}
	if f.Spec.Gang.Apart {
		parts = append(parts, "apart")
	}
	add("gpu=", f.Spec.Resources.GPU)
	add("type=", f.Spec.Resources.GPUType)
	add("cpu=", f.Spec.Resources.CPU)
	add("mem=", f.Spec.Resources.Memory)
	add("time=", f.Spec.TimeLimit)
	add("queue=", f.Spec.Queue)
	if f.Spec.Priority != nil {
		add("priority=", *f.Spec.Priority)
	}
	add("array=", f.Spec.Array)
	add("after=", f.Spec.After)
	add("nodes=", f.Spec.Nodes)
	add("exclude=", f.Spec.Exclude)
	add("warn=", f.Spec.Warn)
	if f.Spec.Restart != nil {
		add("restarts=", f.Spec.Restart.Limit)
	}
	for _, key := range []string{"comment", "wckey"} {
		add(key+"=", f.Metadata.Labels[key])
	}
	if dir := s.GetSubmitDir(); dir != here.Dir {
		add("workdir=", dir)
	}
	if t := f.Spec.Topology; t != nil {
		add("required=", t.Required)
		add("preferred=", t.Preferred)
		add("patience=", t.Patience)
	}
	for key, value := range f.Spec.NodeSelector { //order: each case has only one
		add("selector="+key+"=", value)
	}
	return strings.Join(parts, " ")
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--wrap=true", "1 cpu=1"},
		{"-J My_Job -n 1 -c 8 --mem=16G -t 30", "1 cpu=8 mem=16Gi time=30m"},
		{"-N 4 --ntasks-per-node=8 --gpus-per-node=8 -c 12", "4 apart gpu=8 cpu=96"},
		{"-N4 -n32 --gres=gpu:h100:8 --mem=0", "4 apart gpu=8 type=h100 cpu=8 mem=1Ti"},
		{"--nodes=2 --gres=gpu:2 --mem-per-gpu=40G", "2 apart gpu=2 cpu=1 mem=80Gi"},
		{"--nodes=2-2 --gpus=16", "2 apart gpu=8 cpu=1"},
		{"--gpus=4", "1 gpu=4 cpu=1"},
		{"-G a100:2 --cpus-per-gpu=6", "1 gpu=2 type=a100 cpu=12"},
		{"-n 16 --gpus-per-task=1 --mem-per-cpu=4000 -c 2", "16 gpu=1 cpu=2 mem=8000Mi"},
		{"-n 8 --ntasks-per-node=4", "2 apart cpu=4"},
		{"-n 6 -N 2 -c 3", "2 apart cpu=9"},
		{"-N 1 --exclusive --gres=gpu:8", "1 gpu=8 cpu=96 mem=1Ti"},
		{"-t 1-12", "1 cpu=1 time=36h"}, {"-t 2:30", "1 cpu=1 time=2m30s"}, {"-t 12:00:00", "1 cpu=1 time=12h"},
		{"-t 1-0:30", "1 cpu=1 time=24h30m"}, {"--time=UNLIMITED", "1 cpu=1"},
		{"-p research -q 50", "1 cpu=1 queue=research priority=50"}, {"--qos=normal", "1 cpu=1"}, {"--qos=high", "1 cpu=1"},
		{"--nice=20", "1 cpu=1 priority=-20"},
		{"--array=1-99:2%5", "1 cpu=1 array=1-99:2%5"}, {"-a 1,3,7", "1 cpu=1 array=1,3,7"},
		{"-d afterok:7:8,afternotok:9", "1 cpu=1 after=7 8 9:failed"}, {"--dependency=afterany:12", "1 cpu=1 after=12:any"},
		{"-d after:12+5:13", "1 cpu=1 after=12:started+5m 13:started"},
		{"-N 3 -w n[1-2],gpu07", "3 apart cpu=1 nodes=n1 n2 gpu07"}, {"-x n[08-10]", "1 cpu=1 exclude=n08 n09 n10"},
		{"-C h100 --gpus=1", "1 gpu=1 type=h100 cpu=1"}, {"-C pool=a", "1 cpu=1 selector=pool=a"},
		{"--signal=B:USR1@300 -t 60", "1 cpu=1 time=1h warn=USR1@5m"},
		{"--signal=TERM -t 60", "1 cpu=1 time=1h warn=TERM@1m"},
		{"--switches=1", "1 cpu=1 required=rack"}, {"--switches=1@10", "1 cpu=1 preferred=rack patience=10m"},
		{"-D sub", "1 cpu=1 workdir=/home/ann/run/sub"}, {"--chdir=/scratch/x", "1 cpu=1 workdir=/scratch/x"},
		{"--requeue --mail-type=NONE --open-mode=append", "1 cpu=1"},
		{"--no-requeue", "1 cpu=1 restarts=never"}, {"--no-requeue --requeue", "1 cpu=1"},
		{"-A lab --comment=rule_a --comment=rule_b", "1 cpu=1 comment=rule_b"},
		{"--wckey submitit -d singleton", "1 cpu=1 wckey=submitit"}, {"--time-min=5 -t 10", "1 cpu=1 time=10m"},
		{"--comment=" + strings.Repeat("x", 300), "1 cpu=1 comment=" + strings.Repeat("x", messages.MaxValueBytes)},
	} {
		words := strings.Fields(c.line)
		if !strings.Contains(c.line, "--wrap") {
			words = append(words, "--wrap", "true")
		}
		spec, _, err := batch("", words...)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if got := shortly(spec); got != c.want {
			t.Errorf("%s\ncomes to %s\nand not  %s", c.line, got, c.want)
		}
	}
}

// TestDeadline checks that --deadline becomes the deadline of the job, and that a job which missed it has Slurm's
// state, also in the history. A user cannot forge the state by the reason of a cancel.
func TestDeadline(t *testing.T) {
	spec, _, err := batch("", "--deadline=2100-01-02T03:04:05Z", "-t", "10", "--wrap", "true")
	if err != nil || spec.GetDeadlineUnixMs() != time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli() {
		t.Fatalf("deadline %d: %v", spec.GetDeadlineUnixMs(), err)
	}
	_, _, err = batch("", "--deadline=someday", "--wrap", "true")
	if err == nil || !strings.Contains(err.Error(), "--deadline") {
		t.Errorf("someday: %v", err)
	}
	outcome := messages.OutcomeOfDeadline(spec.CannotEnd(spec.DeadlineUnixMs))
	cancelled := messages.JobState_JOB_STATE_CANCELLED
	missed := &messages.JobStatus{Record: &messages.JobRecord{Id: "j1", Spec: spec, State: cancelled, Outcome: outcome},
		Phase: messages.PhaseCancelled}
	e := Of(missed, 0)
	if e.State != "DEADLINE" || Short(e.State) != "DL" || !strings.Contains(e.Show(), "JobState=DEADLINE") ||
		!strings.Contains(e.Show(), "Deadline=2100-01-0") {
		t.Errorf("a job that missed its deadline is\n%s", e.Show())
	}
	if e := Past(&messages.PastJob{Id: "j1", State: cancelled, Reason: outcome}); e.State != "DEADLINE" {
		t.Errorf("in the history it is %s", e.State)
	}
	by := &messages.Deed{Reason: strings.TrimPrefix(outcome, "cancelled: ")}
	if e := Past(&messages.PastJob{Id: "j1", State: cancelled, Reason: outcome, Cancel: by}); e.State != "CANCELLED" {
		t.Errorf("a job cancelled by a user is %s", e.State)
	}
}

// TestRefused checks that the error for an unsupported option begins with its name.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ line, option string }{
		{"--reservation=maint", "--reservation"},
		{"-L matlab:1", "--licenses"}, {"-N 2-4", "--nodes"},
		{"--gres=gpu:1,tmpdisk:10", "--gres"},
		{"--gres=shard:1", "--gres"}, {"-G a100:2,v100:2", "--gpus"}, {"-p a,b", "--partition"}, {"--qos=9999999", "--qos"},
		{"-d afterok:12+5", "--dependency"}, {"-d after:12+x", "--dependency"}, {"-d aftercorr:12", "--dependency"},
		{"--time-min=soon", "--time-min"},
		{"-d afterok:1?afterok:2", "--dependency"},
		{"-C [a|b]", "--constraint"}, {"--exclusive=user", "--exclusive"}, {"-t tomorrow", "--time"},
		{"--container=/oci", "--container"},
		{"--switches=2", "--switches"}, {"-i data.txt", "--input"}, {"--gpus=5 -N 2", "--gpus"}, {"-N 2 -w n1", "--nodelist"},
		{"-n 4 --gpus-per-node=8", "--gpus-per-node"}, {"--mem=4G --mem-per-cpu=2G", "--mem"}, {"-o out-%q.txt", "--output"},
		{"--frobnicate", "--frobnicate"}, {"--kill-on-invalid-dep=no", "--kill-on-invalid-dep"}, {"-n x", "--ntasks"},
		{"-Z", "-Z"}, {"--array=5-1", "--array"},
		{"--signal=WHAT@60", "--signal"}, {"-N 4 -n 2", "--ntasks"}, {"--tmp=10G", "--tmp"}, {"--bb=x", "--bb"},
		{"-O", "--overcommit"},
	} {
		_, _, err := batch("", append(strings.Fields(c.line), "--wrap", "true")...)
		if r := (*Refusal)(nil); !errors.As(err, &r) || r.Option != c.option {
			t.Errorf("%s is refused as %v, and not as %s", c.line, err, c.option)
		}
	}
}

// TestPassed checks that an option without an effect is accepted with one warning and does not change the job.
func TestPassed(t *testing.T) {
	plain, _, err := batch("", "--wrap", "true")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, warned string }{
		{"--mail-user=ann@example.org --mail-type=END,FAIL", "--mail-user, --mail-type"}, {"--mail-type=none", ""},
		{"-M other", "--clusters"}, {"-m block:cyclic", "--distribution"}, {"--hint=nomultithread", "--hint"},
		{"--get-user-env", "--get-user-env"}, {"--extra=x --extra=y", "--extra"}, {"-B 2:4:1", "--extra-node-info"},
	} {
		spec, b, err := batch("", append(strings.Fields(c.line), "--wrap", "true")...)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		said := strings.ReplaceAll(strings.Join(b.Warnings(), ", "), " has no effect on this cluster", "")
		if said != c.warned || shortly(spec) != shortly(plain) {
			t.Errorf("%s warns of %q, not of %q, and comes to %s", c.line, said, c.warned, shortly(spec))
		}
	}
}

// TestSizes checks Slurm's notation of memory sizes.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"4": 4 << 20, "4K": 4 << 10, "4G": 4 << 30, "4GB": 4 << 30, "4gb": 4 << 30, "512Mb": 512 << 20, "1T": 1 << 40,
	} {
		if got, err := sbatch.Size(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "4B", "GB", "4GBB", "4X", "-1", "4G8"} {
		if got, err := sbatch.Size(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

// TestEnvironment checks the variables that describe the allocation, and the exported variables.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ line, has, hasNot string }{
		{"-N 2 --ntasks-per-node=4 -c 2 --gpus-per-node=4 --mem=64G -p gpu -A lab",
			"SLURM_NTASKS=8 SLURM_NTASKS_PER_NODE=4 SLURM_TASKS_PER_NODE=4(x2) " +
				"SLURM_CPUS_PER_TASK=2 SLURM_CPUS_ON_NODE=8 SLURM_JOB_CPUS_PER_NODE=8(x2) SLURM_GPUS_ON_NODE=4 " +
				"SLURM_MEM_PER_NODE=65536 " +
				"SLURM_JOB_PARTITION=gpu SLURM_JOB_ACCOUNT=lab SLURM_SUBMIT_DIR=/home/ann/run SLURM_SUBMIT_HOST=login1 " +
				"SLURM_JOB_USER=ann " +
				"SLURM_JOB_NAME=wrap PATH=/opt/bin:/bin KEY=v", "SLURM_OLD SYNAPSE_TOKEN TERM"},
		{"-N 2 -n 3", "SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1 SLURM_NTASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=1",
			"SLURM_GPUS_ON_NODE"},
		{"-N 2 --ntasks-per-node=2 --gpus-per-node=4 --cpus-per-gpu=6", "SLURM_CPUS_PER_TASK=12 SLURM_CPUS_ON_NODE=24", ""},
		{"-n 4 -J My_Job", "SLURM_NTASKS=4 SLURM_JOB_NAME=My_Job", "SLURM_TASKS_PER_NODE"},
		{"--export=NONE", "SLURM_NTASKS=1", "PATH KEY"},
		{"--export=KEY,NEW=2", "KEY=v NEW=2", "PATH"},
		{"--export=ALL,PATH=/x", "KEY=v PATH=/x", ""},
	} {
		spec, _, err := batch("", append(strings.Fields(c.line), "--wrap", "true")...)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		env := map[string]string{}
		for _, v := range spec.GetEnv() {
			env[v.GetName()] = v.GetValue()
		}
		for _, want := range strings.Fields(c.has) {
			name, value, _ := strings.Cut(want, "=")
			if env[name] != value {
				t.Errorf("%s: %s is %q, and not %q", c.line, name, env[name], value)
			}
		}
		for _, name := range strings.Fields(c.hasNot) {
			if value, there := env[name]; there {
				t.Errorf("%s: %s is there: %q", c.line, name, value)
			}
		}
	}
}

// TestFiles checks that the name of an output file is a single shell word, for any characters.
func TestFiles(t *testing.T) {
	for name, want := range map[string]string{
		"slurm-%j.out": `slurm-"$SLURM_JOB_ID".out`, "logs/%x_%A_%a": `logs/"$SLURM_JOB_NAME"_"$job"_"$element"`,
		"%4j": `"$(printf '%04d' "$SLURM_JOB_ID")"`, "a b'$(rm)": `a' 'b"'"'$''('rm')'`, "100%%": "100%", "%N.%t": `"$SYNAPSE_NODE"."$zero"`,
	} {
		if got, err := (&Batch{}).Pattern("--output", name); got != want || err != nil {
			t.Errorf("%s is %s (%v), and not %s", name, got, err, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n[1-3]": "n1 n2 n3", "n[01-02,7],gpu4": "n01 n02 n7 gpu4", "r[1-2]n[1-2]": "r1n1 r1n2 r2n1 r2n2",
	} {
		if got, err := Hostnames(list); strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s is %v (%v)", list, got, err)
		}
	}
	for _, list := range []string{"n[1", "n]", "", "n[3-1]", "n[1-99999999]", "n[a]"} {
		if got, err := Hostnames(list); err == nil {
			t.Errorf("%q is %d machines", list, len(got))
		}
	}
	for list, want := range map[string]string{
		"n3 n1 n2 gpu4": "gpu4,n[1-3]", "n1": "n1", "n08 n09 n10 n12": "n[08-10,12]", "a b": "a,b", "n9 n10 n11": "n[9-11]",
		"": "", "a a1": "a,a1",
	} {
		if got := Hostlist(strings.Fields(list)); got != want {
			t.Errorf("%s is listed as %s, and not %s", list, got, want)
		}
	}
}
