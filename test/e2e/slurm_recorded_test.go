package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file runs the job scripts and the queries that submitit, NeMo-Run, torchx and SkyPilot create, as their sources
// write them, and reads the answers with the expectations of their parsers.

// recordedSubmitit is the script of a submitit array: sorted, quoted options, and a step with separate files.
const recordedSubmitit = `#!/bin/bash

# Parameters
#SBATCH --array=0-1%1
#SBATCH --error='%A_%a_log.err'
#SBATCH --job-name='my job'
#SBATCH --mem=4GB
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --open-mode=append
#SBATCH --output='%A_%a_log.out'
#SBATCH --signal=USR2@90
#SBATCH --time=5
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output %A_%a_%t_log.out --error %A_%a_%t_log.err sh -c \
  'echo $SLURM_JOB_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_NTASKS $SLURM_JOB_NUM_NODES \
  $SLURM_NODEID $SLURM_PROCID $SLURM_LOCALID'
`

// recordedNemo is the script of a NeMo-Run experiment on two nodes.
const recordedNemo = `#!/bin/bash
#SBATCH --account=lab
#SBATCH --exclusive=user
#SBATCH --job-name=lab.train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=sbatch_%x_%j.out
#SBATCH --partition=all
#SBATCH --time=00:10:00
set -evx
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
echo $SLURM_NTASKS_PER_NODE $SLURM_NNODES $SLURM_RESTART_COUNT
srun --output log_%x_%j_${SLURM_RESTART_COUNT:-0}.out --chdir "$PWD" --wait=60 --kill-on-bad-exit=1 --mpi=pmix \
  --overlap sh -c 'echo $SLURM_NODEID of $SLURM_NNODES'
exitcode=$?
set -e
which srun
if [ "$exitcode" -ne 0 ]; then scontrol requeue $SLURM_JOB_ID; fi
`

func TestSlurmRecorded(t *testing.T) {
	c := clusterOf(t, "process")
	for _, n := range []string{"n1", "n2"} {
		c.node(n, "r1")
	}
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs of root have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string, more ...string) string {
		t.Helper()
		words := append(append([]string{"slurm"}, strings.Fields(line)...), more...)
		cmd := c.command(filepath.Join(bin, "synapse-cli"), words...)
		cmd.Dir = home
		got := ask(t, cmd)
		if got.code != 0 {
			t.Errorf("%s: ended with %d: %s", line, got.code, got.err)
		}
		return got.out
	}
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}

	script("submission.sh", recordedSubmitit)
	found := regexp.MustCompile(`job (?P<id>[0-9]+)`).FindStringSubmatch(run("sbatch --wait submission.sh"))
	if found == nil {
		t.Fatal("submitit finds no job")
	}
	array := found[1]
	lines := strings.Split(strings.TrimSpace(run("sacct -o JobID,State,NodeList --parsable2 -j "+
		array+" -j "+array)), "\n")
	if len(lines) < 3 || lines[0] != "JobID|State|NodeList" || !slices.Contains(lines, array+"_1|COMPLETED|127.0.0.1") &&
		!slices.Contains(lines, array+"_1|COMPLETED|n1") && !slices.Contains(lines, array+"_1|COMPLETED|n2") {
		t.Errorf("sacct: %q", lines)
	}
	for _, name := range []string{"0_0", "0_1", "1_0", "1_1"} {
		element, task := name[:1], name[2:]
		want := array + " " + element + " 2 1 0 " + task + " " + task + "\n"
		if got := read(array + "_" + name + "_log.out"); !strings.HasSuffix(got, " "+want) {
			t.Errorf("the output of %s is %q, want %q", name, got, want)
		}
	}

	nemo := strings.Replace(recordedNemo, "--exclusive=user", "--requeue", 1)
	if exec.Command("hostname", "--ip-address").Run() != nil { // the host's name has no address, as in a bare chroot
		nemo = strings.Replace(nemo, "hostname --ip-address", "echo 127.0.0.1", 1)
	}
	script("nemo.sh", nemo)
	id := strings.TrimSpace(run("sbatch --requeue --parsable --wait nemo.sh"))
	if strings.Trim(id, "0123456789") != "" {
		t.Fatalf("NeMo-Run reads %q as a job", id)
	}
	step := strings.Split(read("log_lab.train_"+id+"_0.out"), "\n")
	slices.Sort(step)
	if !slices.Equal(step, []string{"", "0 of 2", "1 of 2"}) {
		t.Errorf("the step wrote %q", step)
	}
	if said := read("sbatch_lab.train_" + id + ".out"); !strings.Contains(said, "\n1 2 0\n") ||
		!strings.Contains(said, "/srun\n") {
		t.Errorf("the script wrote %q", said)
	}
	head, state, _ := strings.Cut(run("sacct --parsable2 -j "+id), "\n")
	if columns := strings.Split(head, "|"); columns[0] != "JobID" || columns[1] != "JobName" ||
		!strings.Contains(head, "|State|") ||
		!strings.HasPrefix(state, id+"|lab.train|") {
		t.Errorf("sacct: %q %q", head, state)
	}
	if got := run("sacct --format=State --noheader --parsable2 -j " + id); got != "COMPLETED\n" {
		t.Errorf("sacct: %q", got)
	}
	recordedJSON(t, c, run, id)
}

// recordedJSON reads the JSON of a past job, a running job and the cluster, as NeMo-Run and torchx do.
func recordedJSON(t *testing.T, c *cluster, run func(string, ...string) string, past string) {
	t.Helper()
	var ended struct {
		Jobs []struct {
			ID    json.Number `json:"job_id"`
			Name  string
			State struct{ Current []string }
		}
	}
	if err := json.Unmarshal([]byte(run("sacct --json -S1970-01-01-00:00:01")), &ended); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(ended.Jobs, func(j struct {
		ID    json.Number `json:"job_id"`
		Name  string
		State struct{ Current []string }
	}) bool {
		return j.ID.String() == past
	})
	if at < 0 || ended.Jobs[at].Name != "lab.train" || !slices.Equal(ended.Jobs[at].State.Current, []string{"COMPLETED"}) {
		t.Errorf("sacct --json: %+v", ended.Jobs)
	}
	id := strings.TrimSpace(run("sbatch --parsable --no-requeue -N2 --mem=100 --comment=x --job-name trainer-0",
		"--wrap", "sleep 600"))
	c.eventually("the job runs", func() bool { return run("squeue -j "+id+" -h -o %T") == "RUNNING\n" }, func() {})
	var queue struct {
		Jobs []struct {
			ID      json.Number `json:"job_id"`
			State   []string    `json:"job_state"`
			Name    string
			Command string
			Dir     string `json:"current_working_directory"`
			Het     struct {
				Set    bool
				Number int
			} `json:"het_job_id"`
			Resources struct {
				Nodes struct {
					Allocation []struct {
						Name   string
						CPUs   struct{ Used int }
						Memory struct{ Allocated int }
					}
				}
			} `json:"job_resources"`
		}
		Meta struct {
			Plugin struct {
				Parser string `json:"data_parser"`
			}
		}
	}
	for _, line := range []string{"squeue --json -j " + id, "scontrol --json show job " + id} {
		if err := json.Unmarshal([]byte(run(line)), &queue); err != nil {
			t.Fatal(err)
		}
		if len(queue.Jobs) != 1 || queue.Meta.Plugin.Parser != "data_parser/v0.0.42" {
			t.Fatalf("%s: %+v", line, queue)
		}
		j := queue.Jobs[0]
		nodes := j.Resources.Nodes.Allocation
		if j.ID.String() != id || j.State[0] != "RUNNING" || j.Name != "trainer-0" || j.Dir == "" || j.Het.Number != 0 ||
			len(nodes) != 2 || nodes[1].CPUs.Used != 1 || nodes[1].Memory.Allocated != 100 {
			t.Errorf("%s: %+v", line, j)
		}
	}
	for line, key := range map[string]string{"sinfo --json": "sinfo", "scontrol show node --json": "nodes",
		"scontrol show partition --json": "partitions"} { //order: each is another one
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(run(line)), &all); err != nil || len(all[key]) < 100 || all["errors"] == nil {
			t.Errorf("%s: %v: %s", line, err, all[key])
		}
	}
	// SkyPilot cancels with a signal, and asks for one node.
	if got := run("squeue --nodelist n2 --only-job-state -h -o %i|%T"); got != id+"|RUNNING\n" {
		t.Errorf("squeue --nodelist: %q", got)
	}
	run("scancel --signal TERM --full " + id)
	c.eventually("the job ends", func() bool { return run("squeue -h -j "+id) == "" }, func() {})
	if got := run("squeue -t all -h -o %i|%t"); !strings.Contains(got, id+"|") || !strings.Contains(got, past+"|CD\n") {
		t.Errorf("squeue -t all lacks finished jobs: %q", got)
	}
	run("scontrol show partitions -o")
}
