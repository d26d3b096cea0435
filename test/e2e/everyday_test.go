package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file runs each row of docs/migrate/commands.md: the everyday commands of kubectl and Slurm.

// everyday holds the exit code of each command of the page, and a text that its output or its errors contain.
var everyday = []struct {
	command string
	code    int
	want    string
}{
	{"kubectl apply -f job.yaml", 0, "submitted: train"},
	{"kubectl wait --for=condition=running job/train", 0, "is running"},
	{"kubectl apply -f job.yaml --dry-run=server", 0, "unchanged: train"},
	{"kubectl create -f eval.yaml", 0, "submitted: eval"},
	{"kubectl get jobs", 0, "train  running"},
	{"kubectl get jobs,nodes", 0, "\n\nNODE"},
	{"kubectl get job train -o yaml", 0, "kind: Job\n"},
	{"kubectl get jobs -o wide", 0, "PRIORITY"},
	{"kubectl get jobs -o name", 0, "j"},
	{"kubectl get jobs -o jsonpath='{.items[*].metadata.name}'", 0, "train eval"},
	{"kubectl get jobs -o custom-columns=NAME:.metadata.name,PHASE:.status.phase", 0, "NAME   PHASE\n"},
	{"kubectl get jobs --sort-by=.metadata.name", 0, "eval"},
	{"kubectl get jobs --selector team=nlp", 0, "train"},
	{"kubectl get pods", 2, "did you mean `synapse-cli get jobs`?"},
	{"kubectl get nodes", 0, "node-2"},
	{"kubectl get nodes -o json", 0, "\"kind\": \"NodeList\""},
	{"kubectl get events", 0, "queued"},
	{"kubectl describe job train", 0, "Ranks"},
	{"kubectl describe node node-1", 0, "Node:         node-1"},
	{"kubectl logs train", 0, "[1] hello"},
	{"kubectl logs job/train --tail=1 --prefix", 0, "[train/0] "},
	{"kubectl logs -l team=nlp", 0, "[0] hello"},
	{"kubectl logs train --since=1h", 0, "[1] hello"},
	{"kubectl logs train --timestamps", 0, "Z hello\n"},
	{"kubectl logs train --previous", 3, "job has no earlier attempt"},
	{"kubectl exec train -- printenv SYNAPSE_RANK", 0, "0\n"},
	{"kubectl cp train:/etc/hostname ./copy", 0, ""},
	{"kubectl top nodes", 0, "ALLOCS"},
	{"kubectl top jobs", 0, "train"},
	{"kubectl auth can-i create jobs", 0, "yes\n"},
	{"kubectl auth can-i --list", 0, "submit jobs"},
	{"kubectl auth whoami", 0, "admin of cluster local"},
	{"kubectl config get-contexts", 0, "NAME"},
	{"kubectl cordon node-2", 2, "--reason is missing"},
	{"kubectl cordon node-2 --reason=fan", 0, "Node node-2 cordoned"},
	{"kubectl uncordon node-2", 0, "schedulable again"},
	{"kubectl drain node-2 --ignore-daemonsets", 2, "leave it out: drain stops only jobs of Synapse"},
	{"kubectl drain node-2 --reason=fan", 0, "Node node-2 draining"},
	{"kubectl uncordon node-2 && kubectl get nodes --sort-by=.metadata.id", 0, "node-2  up"},
	{"kubectl label node node-1 a=b", 2, "synapse-node --labels"},
	{"kubectl taint nodes node-1 a=b:NoSchedule", 2, "synapse-cli cordon NODE"},
	{"kubectl scale job/train --replicas=3", 2, "a job keeps its size"},
	{"kubectl rollout restart job/train", 2, "synapse-cli requeue JOB"},
	{"kubectl edit job train", 2, "did you mean `synapse-cli update`?"},
	{"kubectl delete job train", 0, "is being cancelled"},
	{"kubectl delete -f eval.yaml", 0, "is being cancelled"},
	{"kubectl version", 0, "scheduler "},
	{"kubectl cluster-info", 2, "did you mean `synapse-cli top`?"},
	{"kubectl api-resources", 2, "`get nodes` or `get queues`"},
	{"sbatch job.sh", 0, "Submitted batch job "},
	{"sbatch --job-name=long --wrap='sleep 600'", 0, "Submitted batch job "},
	{"sbatch --array=0-3%2 job.sh", 0, "Submitted batch job "},
	{"sbatch --hold --job-name=held --wrap='sleep 600'", 0, "Submitted batch job "},
	{"sbatch --test-only job.sh", 0, "job is valid"},
	{"sbatch --job-name=next --dependency=afterok:long job.sh", 0, "Submitted batch job "},
	{"srun hostname", 0, ""},
	{"srun -N2 sh -c 'echo $SLURM_NODEID'", 0, "1\n"},
	{"salloc -N1 true", 0, "Granted job allocation"},
	{"squeue", 0, "NODELIST(REASON)"},
	{"squeue --me", 0, "long"},
	{"squeue -t PD", 0, "held"},
	{"squeue --start", 0, "START_TIME"},
	{"squeue -j long -o '%j %T'", 0, "long RUNNING"},
	{"timeout 5 squeue -i 1 || true", 0, "long"},
	{"sinfo", 0, "PARTITION AVAIL"},
	{"sinfo -N -l", 0, "node-2"},
	{"scontrol show job long", 0, "JobName=long"},
	{"scontrol show node node-1", 0, "NodeName=node-1"},
	{"scontrol show partition", 0, "PartitionName=all"},
	{"scontrol ping", 0, "is UP"},
	{"scontrol update jobid=long timelimit=2:00:00", 0, ""},
	{"scontrol update jobid=held priority=5", 0, ""},
	{"scontrol release held", 0, ""},
	{"scontrol hold next", 0, ""},
	{"scontrol requeue long", 0, ""},
	{"scontrol suspend long", 1, "suspend is not supported"},
	{"scontrol update nodename=node-2 state=drain reason=fan", 0, ""},
	{"scontrol update nodename=node-2 state=resume", 0, ""},
	{"sprio", 0, "PRIORITY"},
	{"seff held", 0, "Job Wall-clock time: "},
	{"sacct --name held -o JobName,State", 0, "held"},
	{"sacctmgr show associations", 0, "Account"},
	{"sshare", 0, "RawShares"},
	{"scancel --signal=USR1 next", 1, "only a running job gets a signal"},
	{"scancel long", 0, ""},
	{"scancel --me", 0, ""},
}

// everydayFiles are the files that the commands name.
var everydayFiles = map[string]string{
	"job.yaml": "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: train, labels: {team: nlp}}\n" +
		"spec: {image: host, gang: {replicas: 2}, resources: {gpu: 1}, command: [sh, -c, \"echo hello; sleep 600\"]}\n",
	"eval.yaml": "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: eval}\n" +
		"spec: {image: host, resources: {cpu: 1}, command: [sleep, \"600\"]}\n",
	"job.sh": "#!/bin/sh\nhostname\n",
}

// everydayRow matches a row of the page.
var everydayRow = regexp.MustCompile("(?m)^\\| `(.*?)` \\| ")

// TestEverydayCommands types each command of the page on a cluster of `up`, in the order of the page. A link named
// kubectl is the reader's alias.
func TestEverydayCommands(t *testing.T) {
	everywhere(t)
	able.Need(t, able.Root)
	text, err := os.ReadFile("../../docs/migrate/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	found := everydayRow.FindAllStringSubmatch(string(text), -1)
	if len(found) < 60 || len(found) != len(everyday) {
		t.Fatalf("the page has %d rows, the test has %d, and 60 are wanted", len(found), len(everyday))
	}
	l := up(t, "--nodes", "2", "--gpus", "8", "--quiet")
	l.ready(2, 16, 1)
	names := filepath.Join(l.dir, "names")
	l.cli("slurm", "install", names).wants(t, 0, "seff", "")
	if err := os.Symlink(filepath.Join(bin, "synapse-cli"), filepath.Join(names, "kubectl")); err != nil {
		t.Fatal(err)
	}
	for name, text := range everydayFiles { //order: each file is independent
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	settings := l.settings()
	for i, row := range everyday {
		if shown := strings.ReplaceAll(found[i][1], `\|`, "|"); shown != row.command {
			t.Fatalf("row %d of the page is %q, and of the test %q", i, shown, row.command)
		}
		l.typed(row.command, row.code, row.want, settings, names)
	}
}

// typed runs one command as a reader does.
func (l *local) typed(command string, code int, want, settings, names string) {
	l.t.Helper()
	c := exec.Command("sh", "-c", command)
	c.Dir = l.dir
	c.Env = append(os.Environ(), "SYNAPSE_SERVER=", "SYNAPSE_TLS=", "SYNAPSE_CONFIG="+settings,
		"SYNAPSE_CONTEXTS="+filepath.Join(l.dir, "contexts.yaml"), "PATH="+names+":"+os.Getenv("PATH"))
	stop := time.AfterFunc(pace.Of(60*time.Second), func() { _ = c.Process.Kill() })
	defer stop.Stop()
	r := ask(l.t, c)
	if r.code != code || !strings.Contains(r.out+r.err, want) {
		l.t.Errorf("$ %s\nends with %d, want %d; want %q in\n%s%s", command, r.code, code, want, r.out, r.err)
	}
}

// TestTablesFit checks that no line of a table is wider than the terminal at 60, 80 and 160 columns, and that no ID is
// cut.
func TestTablesFit(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--labels", "pool=a-pool-with-a-long-name")
	id := c.order("exec sleep 600", "--name", "a-job-with-a-name-of-more-than-forty-columns-in-it", "--queue", "research")
	c.await(id, "running")
	waits := c.order("true", "--name", "waits", "--after", id)
	for _, columns := range []uint16{60, 80, 160} {
		for _, line := range []string{"get jobs", "get nodes", "get jobs,nodes", "get queues", "top nodes", "top jobs",
			"top --once", "get jobs --start"} {
			cmd := c.command(filepath.Join(bin, "synapse-cli"), strings.Fields(line)...)
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
			said := onWidth(t, cmd, columns)
			if strings.Contains(line, "jobs") && !strings.Contains(said, waits) {
				t.Errorf("%s at %d columns lacks %s:\n%s", line, columns, waits, said)
			}
			for one := range strings.Lines(said) {
				if n := utf8.RuneCountInString(strings.TrimRight(one, "\r\n")); n > int(columns) {
					t.Errorf("%s at %d columns has a line of %d:\n%s", line, columns, n, said)
				}
			}
		}
	}
}
