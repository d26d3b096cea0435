package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests the output and the requests of Slurm's commands. internal/slurm tests the options of jobs, and
// e2e's TestSlurm uses a cluster.

// front returns a cluster with a running job, a waiting job, a held job, and a node.
func front(t *testing.T) *fake {
	f := startFake(t)
	f.nodes = []*messages.NodeStatus{machine("n1"), machine("n2")}
	running := job("jrun", "running", messages.JobState_JOB_STATE_ACTIVE)
	running.Attempt = &messages.AttemptRecord{StartedUnixMs: 1,
		Places: []*messages.Place{{Node: "n1"}, {Node: "n2", Rank: 1}}}
	running.Record.Spec.TimeLimitMs = 90 * 60_000
	waiting := job("jwait", "queued", messages.JobState_JOB_STATE_QUEUED)
	waiting.Record.Spec.After = []*messages.After{{Job: "jrun"}}
	waiting.Because(messages.WaitDependency.Because("jrun running"))
	held := job("jheld", "held", messages.JobState_JOB_STATE_QUEUED)
	held.Record.Owner = &messages.Principal{Name: "ann"}
	held.Record.Hold = &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "wait"}
	f.jobs = []*messages.JobStatus{held, running, waiting}
	return f
}

// SubmitScript accepts a job with a script.
func (f *fake) SubmitScript(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	return f.Submit(ctx, q)
}

func TestSqueue(t *testing.T) {
	f := front(t)
	n := messages.NumericID
	squeue := func(args ...string) result { return cli(f.address, append([]string{"slurm", "squeue"}, args...)...) }
	squeue().wants(t, 0, "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n", "")
	squeue().wants(t, 0, n("jheld")+"    (none)  n-jheld      ann PD       0:00      1 (JobHeldAdmin)\n", "")
	squeue("-h", "-o", "%i|%T|%r|%N|%l|%E", "-j", n("jrun")+",jwait").wants(t, 0,
		n("jwait")+"|PENDING|Dependency||UNLIMITED|afterok:"+n("jrun")+"\n"+n("jrun")+"|RUNNING|None|n[1-2]|1:30:00|(null)\n",
		"")
	squeue("-t", "R", "-O", "JobID:12,State:.8").wants(t, 0, n("jrun")+"   RUNNING\n", "")
	squeue("--json", "-u", "ann").wants(t, 0, `"state_reason": "JobHeldAdmin"`, "")
	squeue("-h", "-o", "%i", "-S", "t,-i").wants(t, 0, n("jrun")+"\n", "")
	squeue("-S", "y").wants(t, 1, "", `squeue: error: --sort: unknown field "y"`)
	squeue("-j", "12345").wants(t, 1, "", "squeue: error: Invalid job id specified: 12345\n")
	squeue("-h", "-o", "%i[%y]", "-j", n("jrun")).wants(t, 0, n("jrun")+"[]\n", "") // an unsupported field
	squeue("--frob").wants(t, 1, "", "squeue: error: unknown flag: --frob")
	squeue("-t", "ODD").wants(t, 1, "", "Invalid job state specified: ODD")
}

func TestScontrol(t *testing.T) {
	f := front(t)
	scontrol := func(args ...string) result { return cli(f.address, append([]string{"slurm", "scontrol"}, args...)...) }
	number := messages.NumericID("jrun")
	scontrol("show", "job", number).wants(t, 0, "JobState=RUNNING Reason=None", "")
	scontrol("show", "job="+number, "-o").wants(t, 0, "NodeList=n[1-2] BatchHost=n1 NumNodes=2", "")
	scontrol("show", "node", "n2").wants(t, 0, "NodeName=n2 ", "")
	scontrol("show", "node", "n9").wants(t, 1, "", "Node n9 not found")
	scontrol("show", "hostnames", "n[1-2],m").wants(t, 0, "n1\nn2\nm\n", "")
	scontrol("show", "hostlist", "n1,n2,n3").wants(t, 0, "n[1-3]\n", "")
	scontrol("show", "licenses").wants(t, 0, "No licenses configured in Slurm.\n", "")
	scontrol("show", "burstbuffer").wants(t, 1, "", "show burstbuffer is not supported")
	scontrol("hold", number).wants(t, 0, "", "")
	scontrol("release", "jheld").wants(t, 0, "", "")
	scontrol("update", "JobId="+number, "TimeLimit=2-0", "Priority=7").wants(t, 0, "", "")
	scontrol("update", "JobId="+number, "NumNodes=4").wants(t, 1, "", "numnodes: cannot be changed")
	scontrol("update", "NodeName=n1", "State=DRAIN").wants(t, 1, "", "You must specify a reason")
	scontrol("reboot", "n1").wants(t, 1, "", "reboot is not supported")
	holds, updates := told[*messages.Hold](f), told[*messages.Update](f)
	if len(holds) != 2 || holds[0].GetJob() != "jrun" || !holds[1].GetRelease() {
		t.Errorf("holds %v", holds)
	}
	if len(updates) != 1 || updates[0].GetTimeLimitMs() != 48*3600_000 || updates[0].GetPriority() != 7 {
		t.Errorf("updates %v", updates)
	}
}

func TestScancelAndSinfo(t *testing.T) {
	f := front(t)
	cli(f.address, "slurm", "scancel", messages.NumericID("jwait")).wants(t, 0, "", "")
	cli(f.address, "slurm", "scancel", "-n", "n-jrun").wants(t, 0, "", "")
	cli(f.address, "slurm", "scancel", "99").wants(t, 1, "", "scancel: error: Invalid job id specified: 99")
	cli(f.address, "slurm", "scancel").wants(t, 1, "", "No job identification provided")
	var ended []string
	for _, c := range told[*messages.Cancel](f) {
		ended = append(ended, c.GetJob())
	}
	if strings.Join(ended, " ") != "jwait jrun" {
		t.Errorf("ended %v", ended)
	}
	sinfo := cli(f.address, "slurm", "sinfo")
	sinfo.wants(t,
		0, "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nall*         up   infinite      2   idle n[1-2]\n", "")
	cli(f.address, "slurm", "sinfo", "-h", "-N", "-o", "%N %f").wants(t, 0, "n1 pool=a\nn2 pool=a\n", "")
	cli(f.address, "slurm", "sinfo", "-R", "-h").wants(t, 0, "", "")
	cli(f.address, "slurm", "sinfo", "-s", "-h").wants(t, 0, "all*         up   infinite          0/2/0/2 n[1-2]\n", "")
	cli(f.address, "slurm", "sinfo", "-h", "-O", "NodeList:8,CPUsState:.12,SocketCoreThread").wants(t, 0, "n[1-2] ", "")
	cli(f.address, "slurm", "sinfo", "-h", "-o", "%all").wants(t, 0, "|UNLIMITED|", "")
	f.nodes[1].Closed = "drained by ops: fan"
	cli(f.address, "slurm", "sinfo", "-R", "-h", "-o", "%E|%N").wants(t, 0, "drained by ops: fan|n2\n", "")
	cli(f.address, "slurm", "sinfo", "-T").wants(t, 1, "", "--reservation: is not supported (reservations are")
}

func TestSbatch(t *testing.T) {
	f := front(t)
	number := messages.NumericID("jnew1")
	script := filepath.Join(t.TempDir(), "train.sh")
	if err := os.WriteFile(script,
		[]byte("#!/bin/sh\n#SBATCH -N 2 -J from-script\n#SBATCH -d afterok:"+messages.NumericID("jrun")+"\ntrue\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "slurm", "sbatch", "-J", "train", script, "--epochs", "3").wants(t, 0, "Submitted batch job "+number+
		"\n", "")
	cli(f.address, "slurm", "sbatch", "--parsable", "-H", "--wrap", "sleep 1").wants(t, 0, number+"\n", "")
	cli(f.address, "slurm", "sbatch", "--reservation=x", script).wants(t, 1, "",
		"sbatch: error: --reservation: is not supported")
	cli(f.address, "slurm", "sbatch", "/nowhere.sh").wants(t, 1, "", "sbatch: error: open /nowhere.sh")
	sent := told[*messages.Submit](f)
	if len(sent) != 2 || sent[0].GetSpec().GetName() != "train" || sent[0].GetSpec().GetGang().GetReplicasMin() != 2 ||
		sent[0].GetSpec().GetAfter()[0].GetJob() != "jrun" {
		t.Errorf("submits %v", sent)
	}
	if len(sent) == 2 && (sent[0].GetHold() || !sent[1].GetHold()) {
		t.Error("the submit does not hold the job, or holds another one")
	}
}

// TestSlurmClients checks command lines of programs that support any Slurm cluster: options without an effect,
// abbreviations, and repeated options. The output that they parse is alone on its stream.
func TestSlurmClients(t *testing.T) {
	f := front(t)
	slurm := func(env map[string]string, args ...string) result {
		return cliWith(f.address, "", env, append([]string{"slurm"}, args...)...)
	}
	n := func(id string) string { return messages.NumericID(id) }
	for _, program := range []string{"sbatch", "squeue", "sinfo", "sacct", "scancel", "scontrol", "srun", "salloc"} {
		if got := slurm(nil, program, "--version"); got.out != "slurm 24.11.0\n" || got.code != 0 {
			t.Errorf("%s --version: %+v", program, got)
		}
	}
	got := slurm(nil, "sbatch", "--parsable", "--mail-type=END", "--get-user-env", "--mem=4GB", "--job=x", "--wrap",
		"true")
	if got.code != 0 || got.out != n("jnew1")+"\n" ||
		got.err != "sbatch: warning: --mail-type has no effect on this cluster\n"+
			"sbatch: warning: --get-user-env has no effect on this cluster\n" {
		t.Errorf("sbatch: %+v", got)
	}
	if sent := told[*messages.Submit](f); len(sent) != 1 || sent[0].GetSpec().GetName() != "x" ||
		sent[0].GetSpec().GetEach().GetMemoryBytes() != 4<<30 {
		t.Errorf("submitted %d", len(sent))
	}
	both := n("jheld") + " PD\n" + n("jrun") + " R\n"
	for _, got := range []result{
		slurm(nil, "squeue", "--nohead", "--form", "%i %t", "-j", n("jrun"), "-j", n("jheld")),
		slurm(nil, "squeue", "-ho%i %t", "--jobs="+n("jrun")+","+n("jheld")),
		slurm(map[string]string{"SQUEUE_STATES": "PD"}, "squeue", "-h", "-o", "%i %t", "-t", "R,PD", "-j", n("jrun"), "-j",
			n("jheld")),
	} {
		lines := strings.SplitAfter(got.out, "\n")
		slices.Sort(lines)
		wants := strings.SplitAfter(both, "\n")
		slices.Sort(wants)
		if got.code != 0 || !slices.Equal(lines, wants) {
			t.Errorf("squeue: %+v, want %q", got, both)
		}
	}
	slurm(map[string]string{"SQUEUE_STATES": "R"}, "squeue", "-h", "-o", "%i").wants(t, 0, n("jrun")+"\n", "")
	slurm(nil, "squeue", "--no", "-o", "%i").wants(t, 1, "", "squeue: error: --no: is ambiguous: --noconvert, ")
	slurm(nil, "squeue", "-h", "-w", "n[2-3]", "-o", "%i", "-M", "all").wants(t, 0, n("jrun")+"\n", "")
	slurm(nil, "squeue", "-h", "-w", "n3", "-o", "%i").wants(t, 0, "", "")
	slurm(nil, "sinfo", "--format", "%P,%m", "--noconvert").wants(t, 0, "PARTITION,MEMORY\n", "")
	slurm(nil, "sinfo", "-h", "--dead", "-o", "%N").wants(t, 0, "\n", "")
	slurm(nil, "sinfo", "-h", "-r", "-o", "%N").wants(t, 0, "n[1-2]\n", "")
	slurm(nil, "squeue", "-h", "-M", "far", "--expand", "-o", "%i").wants(t, 0, n("jrun")+"\n",
		"squeue: warning: --clusters: there is no cluster far, this cluster is shown\n"+
			"squeue: warning: --expand-patterns has no effect on this cluster\n")
	slurm(nil, "squeue", "-h", "--steps=1").wants(t, 1, "", "--steps: is not supported (steps are not stored)")
	slurm(nil, "sacct", "-e").wants(t, 0, "JobID               JobIDRaw ", "")
	slurm(nil, "scontrol", "-h").wants(t, 0, "--uid, -u                        refused: a change belongs", "")
	slurm(nil, "scontrol", "show", "jobid", "-dd", n("jrun")).wants(t, 0, "JobState=RUNNING", "")
	slurm(nil, "scontrol", "show", "partitions", "-o").wants(t, 0, " Default=YES ", "")
	slurm(nil, "scontrol", "show", "partition", "none").wants(t, 1, "", "scontrol: error: Partition none not found")
	slurm(nil, "scontrol", "show", "config").wants(t, 0, "\nMinJobAge               = 300 sec\n", "")
	slurm(nil, "squeue", "--sta", "R").wants(t, 1, "", "squeue: error: --sta: is ambiguous: --start, --states")
}

// TestSlurmInstall checks that the links lead to this program, that a second run changes nothing, and that an
// unrelated file is kept.
func TestSlurmInstall(t *testing.T) {
	dir := t.TempDir()
	cli("", "slurm", "install", dir).wants(t, 0, filepath.Join(dir, "squeue"), "")
	cli("", "slurm", "install", dir).wants(t, 0, filepath.Join(dir, "squeue"), "")
	theirs := filepath.Join(dir, "sinfo")
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cli("", "slurm", "install", dir).wants(t, exit.Conflict, "", theirs+" already exists")
	var out, errs lines
	code := run([]string{filepath.Join(dir, "scontrol"), "show", "hostnames", "n[1-2]"}, strings.NewReader(""), &out,
		&errs,
		func(string) (string, bool) { return "", false })
	if code != 0 || out.String() != "n1\nn2\n" {
		t.Errorf("by its name it says %q and %q, and ends with %d", out.String(), errs.String(), code)
	}
}

// TestSprio checks that waiting jobs are listed by priority, and that an unsupported option names the way here.
func TestSprio(t *testing.T) {
	f := front(t)
	n := messages.NumericID
	f.jobs[2].Record.Spec.Priority = 7
	sprio := func(args ...string) result { return cli(f.address, append([]string{"slurm", "sprio"}, args...)...) }
	sprio().wants(t, 0, "          JOBID PARTITION   PRIORITY\n", "")
	sprio("-h", "-o", "%i %Y %u").wants(t, 0, n("jwait")+" 7\n"+n("jheld")+" 0 ann\n", "")
	sprio("-h", "-o", "%i", "-u", "ann").wants(t, 0, n("jheld")+"\n", "")
	sprio("-l").wants(t, 0, "USER", "")
	sprio("-w").wants(t, 1, "", "sprio: error: --weights: is not supported (a priority is one number")
	sprio("--frob").wants(t, 1, "", "sprio: error: unknown flag: --frob")
}

// TestSqueueIterates checks that squeue -i lists again, each time after a line with the time, until its reader is gone.
func TestSqueueIterates(t *testing.T) {
	f := front(t)
	cli(f.address, "slurm", "squeue", "-i", "0").wants(t, 1, "", "Invalid iterate value: 0")
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		lookup := func(name string) (string, bool) { return f.address, name == "SYNAPSE_SERVER" }
		ended <- run([]string{"synapse-cli", "slurm", "squeue", "-h", "-i", "1", "-o", "%i"}, nil, in, io.Discard, lookup)
	}()
	lines, times := bufio.NewScanner(out), 0
	for times < 2 && lines.Scan() {
		if _, err := time.Parse(time.ANSIC, lines.Text()); err == nil {
			times++
		}
	}
	out.Close()
	select {
	case code := <-ended:
		if code != 0 || times != 2 {
			t.Errorf("code %d after %d listings", code, times)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("squeue -i did not end")
	}
}

// TestSlurmKept checks that each listing returns the account, comment, QOS and WCKey of a job, and selects by them.
func TestSlurmKept(t *testing.T) {
	f := front(t)
	n := messages.NumericID
	slurm := func(args ...string) result { return cli(f.address, append([]string{"slurm"}, args...)...) }
	slurm("sbatch", "-A", "lab", "--comment", "a b", "-q", "high", "--wckey", "w1", "--no-requeue", "--wrap", "true").
		wants(t, 0, "", "")
	spec := told[*messages.Submit](f)[0].GetSpec()
	f.jobs[0].Record.Spec.Labels, f.jobs[0].Record.Spec.Restart = spec.GetLabels(), spec.GetRestart()
	f.past = []*messages.PastJob{{Id: "jold", Owner: "ann", State: messages.JobState_JOB_STATE_SUCCEEDED,
		Labels: spec.GetLabels(), FinishedUnixMs: 5}}
	slurm("squeue", "-h", "-o", "%a|%k|%q|%w", "-j", n("jheld")).wants(t, 0, "lab|a b|high|w1\n", "")
	slurm("squeue", "-h", "-o", "%i", "-q", "high", "-A", "lab").wants(t, 0, n("jheld")+"\n", "")
	slurm("squeue", "-h", "-o", "%i", "-q", "low").wants(t, 0, "", "")
	slurm("squeue", "-h", "-O", "Account:5,Comment:5,QOS:5,WCKey:5,Requeue:2", "-j", n("jheld")).
		wants(t, 0, "lab  a b  high w1   0\n", "")
	slurm("scontrol", "show", "job", n("jheld")).wants(t, 0, "Account=lab QOS=high WCKey=w1\n", "")
	slurm("scontrol", "show", "job", n("jheld")).wants(t, 0, "Requeue=0 Restarts=0 BatchFlag=0 ", "")
	slurm("scontrol", "show", "job", n("jheld")).wants(t, 0, "Comment=a b\n", "")
	for _, key := range []string{`"account": "lab"`, `"comment": "a b"`, `"qos": "high"`, `"wckey": "w1"`,
		`"requeue": false`} {
		slurm("squeue", "--json", "-j", n("jheld")).wants(t, 0, key, "")
		slurm("scontrol", "--json", "show", "job", n("jheld")).wants(t, 0, key, "")
	}
	sacct := []string{"sacct", "-a", "-S", "1970-01-01T00:00", "-W", "w1"}
	slurm(append(sacct, "-n", "--delimiter=;", "-P", "-o", "JobID,Account,Comment,QOS,WCKey")...).wants(t, 0,
		n("jold")+";lab;a b;high;w1\n", "")
	for _, key := range []string{`"account": "lab"`, `"job": "a b"`, `"qos": "high"`, `"wckey": "w1"`} {
		slurm(append(sacct, "--json")...).wants(t, 0, key, "")
	}
	slurm("scancel", "--wckey", "w1").wants(t, 0, "", "")
	if ended := told[*messages.Cancel](f); len(ended) != 1 || ended[0].GetJob() != "jheld" {
		t.Errorf("cancelled %v", ended)
	}
}
