//go:build world

package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests programs that drive Slurm, unchanged and as an ordinary user: Snakemake and ClusterShell of Debian.

// workflow has 20 jobs. One of them fails at its first attempt, and Snakemake submits it again.
const workflow = `rule all:
    input: "all.txt"

rule part:
    output: "part.{n}"
    resources: runtime=5, mem_mb=200
    threads: 1
    shell:
        "if [ {wildcards.n} = 7 ] && [ ! -e failed ]; then touch failed; exit 3; fi; "
        "echo {wildcards.n} on $SLURM_JOB_ID >{output}"

rule join:
    input: expand("part.{n}", n=range(19))
    output: "all.txt"
    resources: runtime=5, mem_mb=200
    shell: "cat {input} >{output}"
`

// TestSnakemake runs a workflow of 20 jobs with Snakemake's own support for Slurm. Snakemake takes a rate of more than
// one check per second, its default, for too many, and then checks only three jobs in 100 seconds.
func TestSnakemake(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("snakemake"))
	u := newSlurmUser(t)
	u.write("Snakefile", workflow, 0o644)
	began := time.Now()
	text, err := u.run(5*time.Minute, "snakemake", "--slurm", "--jobs", "20", "--retries", "1",
		"--latency-wait", "60", "--max-jobs-per-second", "10", "--max-status-checks-per-second", "1")
	if err != nil {
		t.Fatalf("snakemake: %v\n%s", err, text)
	}
	t.Logf("the workflow took %v", time.Since(began))
	joined, err := os.ReadFile(filepath.Join(u.home, "all.txt"))
	lines := strings.Split(strings.TrimSpace(string(joined)), "\n")
	if err != nil || len(lines) != 19 {
		t.Fatalf("%d parts: %v: %s", len(lines), err, joined)
	}
	jobs := map[string]bool{}
	for n, line := range lines {
		job, is := strings.CutPrefix(line, fmt.Sprintf("%d on ", n))
		if jobs[job] = true; !is || job == "" {
			t.Errorf("part %d is %q", n, line)
		}
	}
	if len(jobs) != 19 {
		t.Errorf("%d jobs made 19 parts", len(jobs))
	}
	// 19 parts, one of them twice, and the last job.
	listed, err := u.run(time.Minute, "sacct", "-X", "-n", "-P", "-o", "State,Partition")
	states := strings.Split(strings.TrimSpace(listed), "\n")
	slices.Sort(states)
	if err != nil || len(states) != 21 || states[20] != "FAILED|all" || states[0] != "COMPLETED|all" {
		t.Errorf("sacct: %v: %q", err, states)
	}
}

// TestClusterShell uses the group source for Slurm that ClusterShell ships as an example.
func TestClusterShell(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("nodeset"))
	example, err := os.ReadFile("/etc/clustershell/groups.conf.d/slurm.conf.example")
	if err != nil {
		t.Skipf("this host has no example of ClusterShell: %v", err)
	}
	u := newSlurmUser(t)
	if text, err := u.run(time.Minute, "mkdir", "-p", ".config/clustershell/groups.conf.d"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	u.write(".config/clustershell/groups.conf", "[Main]\ndefault: slurmpart\nconfdir: $CFGDIR/groups.conf.d\n", 0o644)
	u.write(".config/clustershell/groups.conf.d/slurm.conf", string(example), 0o644)
	ask := func(want string, words ...string) {
		t.Helper()
		if text, err := u.run(time.Minute, words...); err != nil || text != want {
			t.Errorf("%v: %v: printed %q, want %q", words, err, text, want)
		}
	}
	ask("node-[1-2]\n", "nodeset", "-f", "@all")
	ask("@all\n", "nodeset", "-l")
	ask("@st:idle node-[1-2]\n", "nodeset", "-ll", "-s", "st")
	id, err := u.run(time.Minute, "sbatch", "--parsable", "-w", "node-2", "--mem=100M", "--wrap", "sleep 600")
	if err != nil {
		t.Fatalf("sbatch: %v: %s", err, id)
	}
	id = strings.TrimSpace(id)
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		if text, _ := u.run(time.Minute, "squeue", "-h", "-j", id, "-o", "%t"); text == "R\n" {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the job does not run")
		}
	}
	ask("node-2\n", "nodeset", "-f", "@sj:"+id)
	ask("node-2\n", "nodeset", "-f", "@su:"+ordinary)
	ask("@sj:"+id+"\n", "nodeset", "-l", "-s", "sj")
	ask("@su:"+ordinary+"\n", "nodeset", "-l", "-s", "su", "node-2")
	ask("node-1\n", "nodeset", "-f", "@st:idle")
	ask("@st:mixed\n", "nodeset", "-l", "-s", "st", "node-2")
	ask("@all\n", "nodeset", "-l", "node-1")
	ask("", "scancel", id)
}
