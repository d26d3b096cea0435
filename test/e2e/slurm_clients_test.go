package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSlurmSequences runs the commands of programs that drive Slurm, as in their sources, and parses the answers as
// they do: Snakemake's executor and its plugin, torchx, NeMo-Run, Nextflow, ClusterShell and SkyPilot. Their actions
// inside a job are not tested here.
func TestSlurmSequences(t *testing.T) {
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
	matches := func(text, pattern string) string {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			t.Errorf("%q is missing in %q", pattern, text)
			return ""
		}
		return found[len(found)-1]
	}

	// torchx and Nextflow first query the version and the partitions.
	matches(run("sinfo --version"), `^slurm (\d+)\.(\d+)\.`)
	matches(run("sinfo --format %P,%m --noconvert"), `(?m)^PARTITION,MEMORY\n\S+\*?,\d+$`)

	// Snakemake's own executor.
	run("sacct -nu root -o Account%20")
	if partition := matches(run("sinfo -o %P"), `(?m)^(\S+)\*$`); partition != "all" {
		t.Errorf("the default partition is %q", partition)
	}
	words := strings.Fields(run("sbatch -J N1 -o out/%j.log --export=ALL -t 10 --mem-per-cpu 100 --cpus-per-task=1 "+
		"--wait -D "+home, "--wrap", "true"))
	id := words[len(words)-1]
	if got := run("sacct -P -n --format=JobIdRaw,State -j " + id); got != id+"|COMPLETED\n" {
		t.Errorf("sacct: %q", got)
	}
	if state := matches(run("scontrol show jobid -dd "+id), `JobState=(\w+)`); state != "COMPLETED" {
		t.Errorf("scontrol: %q", state)
	}
	run("scancel " + id)

	// Snakemake's plugin.
	matches(run("sshare -U --format Account%256 --noheader"), `(?m)^\s*all$`)
	id = strings.TrimSpace(run("sbatch --parsable --job-name u1 --output o.log --export=ALL --comment rule_a "+
		"--clusters x -t 10 --mem-per-cpu 100 --ntasks=1 --cpus-per-task=1 --requeue -D "+home, "--wrap", "sleep 600"))
	if got := run("squeue --format=%i|%T --states=all --noheader --name u1"); !strings.HasPrefix(got, id+"|") {
		t.Errorf("squeue: %q", got)
	}
	matches(run("scontrol show config"), `(?m)^MinJobAge\s+= (\d+) sec`)
	matches(run("scontrol show partition"), `MaxTime=\S+[\s\S]*TotalCPUs=\d+ TotalNodes=2`)
	if got := run("squeue -h -o %k -j " + id); got != "rule_a\n" {
		t.Errorf("the comment is %q", got)
	}
	run("scancel " + id + " --clusters=all")
	run("sbatch --parsable --wait --job-name u2", "--wrap", "true")
	if got := run("sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime 2026-01-26T10:00 " +
		"--endtime now --name u2"); !strings.HasSuffix(got, "|COMPLETED\n") {
		t.Errorf("sacct: %q", got)
	}
	matches(run("sacct --name=u2 --parsable2 --noheader "+
		"--format=JobID,JobName,Comment,Elapsed,TotalCPU,NNodes,NCPUS,MaxRSS,ReqMem"), `^\d+\|u2\|[^|]*\|[\d:]+\|\|1\|1\|`)

	// Nextflow needs a task to run once, and NeMo-Run's Ray helper needs one job per name at a time.
	id = strings.TrimSpace(run("sbatch --parsable --no-requeue -J nf-1 -A lab --wckey w -c 1 -t 30:00:00 --mem 100M",
		"--wrap", "sleep 600"))
	second := strings.TrimSpace(run("sbatch --parsable --requeue --dependency=singleton -J nf-1", "--wrap", "true"))
	c.eventually("the first of two of a name runs", func() bool {
		return run("squeue -h -o %t -j "+id) == "R\n"
	}, func() {})
	if got := run("squeue -h -o %t|%r -j " + second); got != "PD|Dependency\n" {
		t.Errorf("the second job of one name: %q", got)
	}
	if got := run("squeue -h -o %a|%w -j " + id); got != "lab|w\n" {
		t.Errorf("account and key: %q", got)
	}
	owner := strings.TrimSpace(run("squeue -h -o %u -j " + id))
	matches(run("sacctmgr -n -s list user "+owner+" format=account%20"), `(?m)^\s*lab$`)
	run("scancel " + id + " " + second)

	// NeMo-Run and torchx read JSON of all past jobs.
	if got := run("sacct --json -S1970-01-01-00:00:01"); !strings.Contains(got, `"name": "u2"`) {
		t.Errorf("sacct --json: %q", got)
	}
	run("squeue --json")

	// Portals and exporters: Open OnDemand separates columns by control characters, and prometheus-slurm-exporter sums
	// all nodes in one line and uses widths with a suffix.
	got := run("squeue --all --states=all --noconvert -h -o", "\x1e%A\x1f%j\x1f%T")
	if !strings.Contains(got, "\x1fu2\x1fCOMPLETED\n") || !strings.HasPrefix(got, "\x1e") {
		t.Errorf("squeue for Open OnDemand: %q", got)
	}
	matches(run("sinfo -h -o %C"), `^\d+/\d+/0/\d+\n$`)
	matches(run("sinfo -a -h", "--Format=Nodes: ,Gres:"), `^2 \S+\n$`)
	if got := run("squeue -a -r -h -o %A|%T --states=all"); strings.Count(got, "|COMPLETED\n") < 2 {
		t.Errorf("squeue of all states: %q", got)
	}
	for line, answer := range map[string]string{ //order: each is independent
		"sacctmgr show qos -nP format=name,priority":         "normal|0\n",
		"sacctmgr list cluster -nP format=cluster":           "synapse\n",
		"scontrol show reservation":                          "No reservations in the system\n",
		"scontrol show licenses":                             "No licenses configured in Slurm.\n",
		"squeue -h -n u2 -t all -O Name:|,State:":            "u2|COMPLETED\n",
		"squeue --me -h -t PD -o %i":                         "",
		"sacct -X -n -P --name u2 -o JobName,State,NNodes%5": "u2|COMPLETED|1\n",
	} {
		if got := run(line); got != answer {
			t.Errorf("%s: %q", line, got)
		}
	}
	matches(run("scontrol show part -o"), `^PartitionName=all `)

	// Several jobs, as submitit requests them, and one by its node.
	id = strings.TrimSpace(run("sbatch --parsable --job-name u3 -w n2 -t 10", "--wrap", "sleep 600"))
	c.eventually("the job runs", func() bool { return run("squeue -h -o %t -j "+id) == "R\n" }, func() {})
	if got := run("squeue -h -o %A|%u -w n[2-3] -t R"); !strings.HasPrefix(got, id+"|") {
		t.Errorf("squeue -w: %q", got)
	}
	run("sacct -o JobID,State,NodeList --parsable2 -j " + id + " -j " + id)
	matches(run("sinfo -h --Node -o %N|%t|%G|%c|%m|%P"), `(?m)^n2\|mix`)
	run("squeue --noheader -o %i|%t -t all -u root")
	run("scontrol show partitions -o")
	run("scancel " + id)
}
