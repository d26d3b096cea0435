package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

const jobYAML = "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: filed}\n" +
	"spec: {image: host, resources: {gpu: 2}, command: [\"true\"]}\n"

// wants checks the exit code and the output of a run.
func (r result) wants(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.err, err) {
		t.Errorf("ended with %d, want %d\nout: %s\nwant: %s\nerr: %s\nwant: %s", r.code, code, r.out, out, r.err, err)
	}
	for _, raw := range []string{"rpc error", "goroutine ", "code = ", "desc = "} {
		if strings.Contains(r.err, raw) {
			t.Errorf("the error is raw: %s", r.err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"sumbit x", "did you mean `synapse-cli submit`?"},
		{"squeue", "did you mean `synapse-cli get jobs`?"},
		{"undrain n1", "did you mean `synapse-cli uncordon`?"},
		{"describe train", "hint: `synapse-cli describe job train` or `synapse-cli describe node train`"},
		{"describe jb train", "did you mean `synapse-cli describe job`?"},
		{"--nope", "unknown flag: --nope"},
		{"up --patience 5s", "unknown flag --patience of up: use --join-timeout"},
		{"up --data x", "did you mean --data-dir? run `synapse-cli up --help` for its usage"},
		{"submit --gpuss 8 -- true", "did you mean --gpu?"},
		{"get jobs --allnamespaces", "hint: run `synapse-cli get jobs --help` for its usage"},
		{"get partitions", "did you mean `synapse-cli get queues`?"},
		{"get pods", "did you mean `synapse-cli get jobs`?"},
		{"get", "the type to list is missing"},
		{"get racks", "hint: use events, jobs, nodes, queues"},
		{"get jobs -o xml", "-o xml: unknown format"},
		{"get jobs --sort size", "--sort size: unknown key"},
		{"get jobs j1 --live", "filters and -w cannot be combined with JOB"},
		{"describe", "the type to describe is missing"},
		{"explain", "job is missing"},
		{"logs", "job is missing"},
		{"get jobs --me --owner bob", "cannot be combined"},
		{"logs --tail-bytes 8GB j", "did you mean 8Gi?"},
		{"logs -f --previous j", "cannot be combined"},
		{"cancel", "job is missing"},
		{"cancel j1 -l a=b", "JOB and -l cannot be combined"},
		{"cancel -l =nonsense", "not a selector"},
		{"wait", "job is missing"},
		{"wait j1 --timeout 60", "write 60s, or 60m for minutes"},
		{"drain n1", "--reason is missing"},
		{"cordon n1", "--reason is missing"},
		{"drain n1 -r x --deadline soon", "is not a duration"},
		{"drain -r x", "NODE is missing"},
		{"remove n1", "--gone is missing"},
		{"submit", "job is missing"},
		{"submit a.yaml b.yaml", "submit accepts one argument FILE, got 2 files"},
		{"submit a.yaml --gpu 1", "--gpu cannot be combined with a file"},
		{"submit a b", "write a command after --, as in `-- a b`"},
		{"submit a --from j", "cannot be combined"},
		{"submit a -- run", "a command cannot be combined"},
		{"submit no-such-file", "no such file"},
		{"submit --gpu 1.5 --image host", "must be a whole number of GPUs"},
		{"submit --gpu 8GB --image host", "--gpu:"},
		{"submit --gpu 1", "image: is missing"},
		{"submit --gpu 1 --image host --split half", "must be whole or any"},
		{"submit --gpus-per-task 1 --image host -n 2 --split any", "these amounts are per task"},
		{"submit --gpu 1 --image host -n -2", "outside 1 to"},
		{"submit --gpu 1 --image host --mount /a", "invalid mount"},
		{"submit --gpu 1 --image host -e UNSET", "environment variable is not set"},
		{"submit --gpu 1 --image host -l a", "not a label"},
		{"up x", "accepts no arguments"},
		{"up --nodes 0", "--nodes 0"},
		{"up --nodes 2 --racks 3", "--racks 3"},
		{"up --memory 8GB", "did you mean 8Gi?"},
		{"--server nowhere get jobs", "is not a scheduler address"},
		{"--ca /no/such/file get jobs", "ca:"},
		{"--config /no/such/file get jobs", "settings:"},
		{"--config /no/such/file up --nodes 0", "--nodes 0"},
	} {
		r := cli("", strings.Fields(c.args)...)
		r.wants(t, exit.Misuse, "", c.want)
		if n := strings.Count(r.err, "\n"); n > 2 {
			t.Errorf("%s: %d lines of complaint: %s", c.args, n, r.err)
		}
	}
}

// TestExitCodes checks that every code of the server has an exit code, and that its text and hint are shown.
func TestExitCodes(t *testing.T) {
	f := startFake(t)
	for code, want := range map[messages.Code]int{
		messages.Code_CODE_INVALID: 2, messages.Code_CODE_NOT_FOUND: 3, messages.Code_CODE_CONFLICT: 4,
		messages.Code_CODE_NOT_ALLOWED: 5,
		messages.Code_CODE_INFEASIBLE:  7, messages.Code_CODE_UNAVAILABLE: 8, messages.Code_CODE_EXHAUSTED: 8,
	} {
		f.refusal = &messages.Outcome{Code: code, Field: "spec.name", Text: "the text", Hint: "the hint"}
		for _, args := range []string{"submit --gpu 1 --image /i", "get jobs", "get nodes", "get job j", "explain j",
			"cancel j", "hold j", "drain n -r x", "logs j", "wait j", "version"} {
			r := cli(f.address, strings.Fields("--retry 0s "+args)...)
			r.wants(t, want, "", "spec.name: the text\nhint: the hint")
		}
	}
}

// TestOthersDoNotSteerTheTerminal checks that control characters in an error are escaped, because an error may
// quote text of other users.
func TestOthersDoNotSteerTheTerminal(t *testing.T) {
	f := startFake(t)
	f.refusal = &messages.Outcome{Code: messages.Code_CODE_CONFLICT, Text: "no\x1b[2J way\u009b1m",
		Hint: "try\r\x07 again"}
	cli(f.address, "--retry", "0s", "cancel", "j").wants(t, 4, "",
		`synapse-cli: no\u001b[2J way\u009b1m`+"\n"+`hint: try\u000d\u0007 again`)
}

func TestUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	cli(nobody, "--retry", "0", "get", "jobs").wants(t, exit.Unavailable, "", "cannot reach the scheduler at "+nobody+
		": connection refused\nhint: check that the scheduler is running")

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	cli(silent.Addr().String(), "get", "nodes").wants(t, exit.Unavailable, "", "the program there is not a scheduler")
}

// TestAnotherServer checks that a gRPC server that is not a scheduler gets another error than an unreachable one.
func TestAnotherServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	for _, args := range []string{"get jobs", "watch", "logs j", "submit --gpu 1 --image /i"} {
		cli(listener.Addr().String(), strings.Fields(args)...).wants(t, exit.Failed, "",
			"does not support this request\nhint: ")
	}
}

func TestSubmit(t *testing.T) {
	f := startFake(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(jobYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "submit", file).wants(t, 0, "Job jnew1 submitted: filed, 1 task of 2 GPUs\n", "")
	cliWith(f.address, jobYAML, nil, "submit", "-", "-q").wants(t, 0, "jnew1\n", "")
	cli(f.address, "submit", file, "-o", "json").wants(t, 0, `"id": "jnew1"`, "")
	cli(f.address, "submit", file, "--parsable", "--request-id", "r7", "--allow-infeasible").wants(t, 0, "jnew1\n", "")
	cliWith(f.address, "", map[string]string{"HOME": "/h"}, "submit", "--gpu", "64", "--cpu", "512", "--mem", "4Ti",
		"--image", "host", "-e", "A=b", "-e", "HOME",
		"--label", "a=b,c=d", "--mount", "/a:/b:ro", "--required", "zone", "--time-limit", "24h", "--", "./train.sh",
		"-x").wants(t, 0, "submitted: train, 64 GPUs, 512 CPUs, 4Ti in total, whole nodes", "")
	cli(f.address, "submit", "--gpu", "0.5", "--image", "host", "--name", "half", "--", "true").wants(t, 0,
		"half, 1 task of 0.5 GPUs", "")
	cli(f.address, "submit", "--cpu", "2", "-n", "3", "--image", "/srv/images/My_Image.tar").wants(t,
		0, "my-image, 3 tasks of 2 CPUs each", "")
	cli(f.address, "submit", "--from", "jnew").wants(t, 0, "my-image", "")
	sent := told[*messages.Submit](f)
	if sent[3].GetRequestId() != "r7" || !sent[3].GetAllowInfeasible() || sent[0].GetAllowInfeasible() {
		t.Errorf("%v", sent[3])
	}
	if a, b := sent[0].GetRequestId(), sent[1].GetRequestId(); a == "" || a == b {
		t.Errorf("request ids %q and %q", a, b)
	}
	for i, s := range sent {
		s.Principal = &messages.Principal{Name: messages.Anonymous}
		if err := s.Validate(); err != nil {
			t.Errorf("submit %d: %v", i, err)
		}
	}
	long := sent[4].GetSpec()
	if long.GetGang().GetTotal().GetMilliGpu() != 64_000 || long.GetGang().GetTotal().GetMemoryBytes() != 4<<40 ||
		fmt.Sprint(long.GetCommand()) != "[./train.sh -x]" ||
		long.GetEnv()[1].GetValue() != "/h" || len(long.GetLabels()) != 2 || !long.GetMounts()[0].GetReadOnly() ||
		long.GetTimeLimitMs() != 86_400_000 {
		t.Errorf("%v", long)
	}
}

func TestSubmitRefusesBadFiles(t *testing.T) {
	f := startFake(t)
	r := cliWith(f.address, strings.ReplaceAll(jobYAML, "gpu: 2", "gpus: 2, mem: 8 GB"), nil, "submit", "-")
	r.wants(t, exit.Misuse, "",
		"standard input:4:33: spec.resources.gpus: is not a key of a job file; did you mean \"gpu\"?\n")
	if sent := told[*messages.Submit](f); len(sent) > 0 || r.out != "" {
		t.Errorf("submitted %v, said %q", sent, r.out)
	}
	large := cliWith(f.address, strings.Repeat("#", 2<<20), nil, "submit", "-")
	large.wants(t, exit.Misuse, "", "more than 1048576")
}

func TestDryRun(t *testing.T) {
	r := cli("127.0.0.1:1", "submit", "--dry-run", "--gpu", "8", "--image", "host", "--", "a")
	r.wants(t, 0, "total: {gpu: 8}", "")
	again := cliWith("127.0.0.1:1", r.out, nil, "submit", "-", "--dry-run")
	again.wants(t, 0, r.out, "")
}

// TestSeedName checks that under its original name the program takes that program's flags and prints its lines.
func TestSeedName(t *testing.T) {
	f := startFake(t)
	r := cli(f.address, seedName, "--cpu=4", "--gpu=1", "--mem=128", "--image=/srv/rootfs")
	r.wants(t, 0, "", "")
	lines := strings.Split(r.out, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "Submitting Job job-") || !strings.HasSuffix(lines[0], "...") ||
		lines[1] != "Master Response: Job queued successfully (Job ID: jnew1)" {
		t.Errorf("%q", r.out)
	}
	total := told[*messages.Submit](f)[0].GetSpec().GetGang().GetTotal()
	if total.GetMilliCpu() != 4000 || total.GetMilliGpu() != 1000 || total.GetMemoryBytes() != 128<<20 {
		t.Errorf("%v", total)
	}
	cliWith(f.address, jobYAML, nil, seedName, "submit", "-").wants(t,
		0, "Submitting Job filed...\nMaster Response: Job queued successfully (Job ID: jnew1)\n", "")
	cli(f.address, seedName).wants(t, 0, "Available Commands", "")
	cli(f.address, seedName, "--cpu=-1").wants(t, exit.Misuse, "", "invalid amount")
	cli(f.address, "--cpu=4").wants(t, exit.Misuse, "", "unknown flag: --cpu")
	atOnce := filepath.Join(t.TempDir(), "cli.yaml")
	if err := os.WriteFile(atOnce, []byte("retry: 0s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{"SYNAPSE_CONFIG": atOnce}
	cliWith("127.0.0.1:1", "", settings, seedName, "--cpu=4").wants(t, exit.Unavailable, "Submitting Job", "cannot reach")
}

func TestGet(t *testing.T) {
	f := startFake(t)
	cli(f.address, "get", "jobs").wants(t, 0, "JOB", "no jobs")
	for i, id := range []string{"j1", "j2", "j3"} {
		j := job(id, "queued", messages.JobState_JOB_STATE_QUEUED)
		j.Record.SubmittedUnixMs = int64(3 - i)
		j.Record.Spec.Priority = int32(i)
		f.put(j)
	}
	f.finish("j4", "failed", messages.JobState_JOB_STATE_FAILED, 3, "rank 0 on n1 exited with code 3")
	for args, want := range map[string]string{
		"get jobs -q":                         "j4\nj3\nj2\nj1\n",
		"get jobs --live --sort id -q":        "j1\nj2\nj3\n",
		"get jobs --sort priority -o name":    "j3\nj2\nj1\nj4\n",
		"get jobs --sort -id -q":              "j4\nj3\nj2\nj1\n",
		"get job j1 j3 -q":                    "j1\nj3\n",
		"get jobs --parsable --no-headers":    "j4|x|failed|1|",
		"get job j1 -o json":                  `"kind": "Job"`,
		"get jobs -o yaml":                    "kind: JobList\n",
		"describe job j4":                     "Exit code:    3\n",
		"explain j1":                          "j1 is queued: needs 64 GPUs\n",
		"get jobs -l team=nlp --me -o wide":   "PRIORITY",
		"get jobs --owner bob --phase queued": "JOB",
	} {
		cli(f.address, strings.Fields(args)...).wants(t, 0, want, "")
	}
	asked := told[*messages.ListJobs](f)
	var me, bob bool
	for _, q := range asked {
		me = me || q.GetOwner() == messages.Anonymous && len(q.GetLabels()) == 1
		bob = bob || q.GetOwner() == "bob" && len(q.GetPhases()) == 1
	}
	if !me || !bob {
		t.Errorf("the filters are not asked for: %v", asked)
	}
	cli(f.address, "get", "job", "jx").wants(t, exit.NotFound, "", `unknown job "jx"`+"\nhint: look again")
}

func TestNodes(t *testing.T) {
	f := startFake(t)
	f.nodes = []*messages.NodeStatus{machine("n1"), machine("n12"), machine("n2")}
	f.nodes[2].GetRecord().GetAnnouncement().GetPlace()[0].Value = "r2"
	cli(f.address, "get", "nodes", "-q").wants(t, 0, "n1\nn12\nn2\n", "")
	cli(f.address, "get", "nodes", "-q", "-l", "rack=r1").wants(t, 0, "n1\nn12\n", "")
	cli(f.address, "get", "node", "n1", "-o", "yaml").wants(t, 0, "kind: Node\n", "")
	cli(f.address, "describe", "node", "n2").wants(t, 0, "Node:         n2", "")
	cli(f.address, "cordon", "n1", "n2", "--reason", "fan").wants(t, 0, "Node n1 cordoned\nNode n2 cordoned\n", "")
	cli(f.address, "drain", "n12", "-r", "fan", "--deadline", "2h").wants(t, 0, "Node n12 draining\n", "")
	cli(f.address, "drain", "n12", "-r", "fan", "--at", "2126-11-24T08:00:00Z").wants(t,
		0, "Node n12 becomes unschedulable at 2126-11-24T08:00:00Z\n", "")
	cli(f.address, "drain", "n12", "-r", "fan", "--at", "2020-11-24T08:00:00Z").wants(t, 0, "Node n12 draining\n", "")
	cli(f.address, "drain", "n12", "-r", "fan", "--at", "noon").wants(t, exit.Misuse, "",
		`--at: "noon" is not a time of day`)
	cli(f.address, "uncordon", "n12").wants(t, 0, "Node n12 schedulable again\n", "")
	cli(f.address, "remove", "n2", "--gone").wants(t, 0, "Node n2 removed\n", "")
	cli(f.address, "cordon", "n", "-r", "x").wants(t, exit.Conflict, "", `"n" matches several nodes: n1, n12, n2`)
	cli(f.address, "cordon", "m", "-r", "x").wants(t, exit.NotFound, "", `unknown node "m"`)
	var verbs []string
	for _, q := range told[*messages.ChangeNode](f) {
		verbs = append(verbs, fmt.Sprintf("%s %s %q %d %d", q.GetNode(), q.GetVerb(), q.GetReason(), q.GetDeadlineMs(),
			q.GetAtUnixMs()/1000))
	}
	want := `n1 NODE_VERB_CORDON "fan" 0 0,n2 NODE_VERB_CORDON "fan" 0 0,n12 NODE_VERB_DRAIN "fan" 7200000 0,` +
		`n12 NODE_VERB_DRAIN "fan" 0 4951180800,n12 NODE_VERB_DRAIN "fan" 0 1606204800,n12 NODE_VERB_UNCORDON "" 0 0,n2 NODE_VERB_REMOVE "" 0 0`
	if got := strings.Join(verbs, ","); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestCancel(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.put(job("jbb1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.put(job("jcc1", "failed", messages.JobState_JOB_STATE_FAILED))
	r := cli(f.address, "cancel", "jaa", "jxx", "jb", "jaa1", "jyy", "--reason", "wrong data")
	r.wants(t, exit.NotFound, "Job jaa1 is being cancelled\nJob jbb1 is being cancelled\n", `unknown job "jxx"`)
	if !strings.Contains(r.err, `unknown job "jyy"`) {
		t.Errorf("the second failure is not told: %s", r.err)
	}
	if sent := told[*messages.Cancel](f); len(sent) != 2 || sent[0].GetReason() != "wrong data" ||
		sent[1].GetJob() != "jbb1" {
		t.Errorf("%v", sent)
	}
	cli(f.address, "cancel", "-l", "team=nlp").wants(t, 0, "Job jaa1 is being cancelled\nJob jbb1 is being cancelled\n",
		"")
	cli(f.address, "hold", "jaa", "-r", "later").wants(t, 0, "Job jaa1 held\n", "")
	held := job("jaa1", "held", messages.JobState_JOB_STATE_QUEUED)
	held.Record.Hold = &messages.Deed{Reason: "later"}
	f.put(held)
	cli(f.address, "release", "jaa", "jbb").wants(t, 0, "Job jaa1 released\nJob jbb1 was not held\n", "")
	if sent := told[*messages.Hold](f); sent[0].GetReason() != "later" || sent[0].GetRelease() || !sent[1].GetRelease() {
		t.Errorf("%v", sent)
	}
}

// TestRequeue checks that the request names the attempt that was seen. A retry must not end the next attempt.
func TestRequeue(t *testing.T) {
	f := startFake(t)
	new, back, runs := job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED),
		job("jbb1", "queued", messages.JobState_JOB_STATE_QUEUED),
		job("jcc1", "running", messages.JobState_JOB_STATE_ACTIVE)
	back.Record.Runs, runs.Record.Runs = 1, 3
	for _, j := range []*messages.JobStatus{new, back, runs} {
		f.put(j)
	}
	cli(f.address, "requeue", "-l", "team=nlp", "-r", "slow disk").wants(t, 0,
		"Job jaa1 is already waiting\nJob jbb1 is already waiting\nJob jcc1 requeued: attempt 3 is being stopped\n", "")
	sent := told[*messages.Requeue](f)
	if len(sent) != 2 || sent[0].GetRun() != 1 || sent[1].GetRun() != 3 || sent[1].GetReason() != "slow disk" ||
		sent[1].GetHold() {
		t.Errorf("%v", sent)
	}
	cli(f.address, "requeue", "jaa1", "jcc1", "--hold", "-r", "new data").wants(t, 0,
		"Job jaa1 held: no attempt was running\nJob jcc1 held: attempt 3 is being stopped\n", "")
	if sent = told[*messages.Requeue](f); len(sent) != 3 || !sent[2].GetHold() {
		t.Errorf("%v", sent)
	}
	if held := told[*messages.Hold](f); len(held) != 1 || held[0].GetJob() != "jaa1" || held[0].GetReason() != "new data" {
		t.Errorf("%v", held)
	}
}

func TestLogs(t *testing.T) {
	f := startFake(t)
	single := job("j1", "running", messages.JobState_JOB_STATE_ACTIVE)
	gang := job("k1", "running", messages.JobState_JOB_STATE_ACTIVE)
	gang.Record.Spec.Gang.ReplicasMin = 2
	f.put(single)
	f.put(gang)
	f.logs = []*api.LogPart{
		{Rank: 0, Data: []byte("a\nb")}, {Rank: 1, Data: []byte("x\n")}, {Rank: 0, Stderr: true, Data: []byte("err\n")},
		{Rank: 0, Data: []byte("c\nd")}, {Rank: 1, Attempt: &messages.Token{Epoch: 1}, Notice: "n2 is not reachable"},
	}
	cli(f.address, "logs", "k").wants(t, 0, "[0] a\n[1] x\n[0] err\n[0] bc\n[0] d\n", "rank 1: n2 is not reachable\n")
	cli(f.address, "logs", "j", "--tail-bytes", "64Ki").wants(t, 0, "a\nbx\nerr\nc\nd", "")
	cli(f.address, "logs", "k", "--rank", "0").wants(t, 0, "a\nb", "")
	sent := told[*api.ReadLogs](f)
	if sent[0].GetJob() != "k1" || sent[1].GetTailBytes() != 64<<10 || sent[2].GetRanks()[0] != 0 {
		t.Errorf("%v", sent)
	}
}

func TestLongLineIsBounded(t *testing.T) {
	var out lines
	m := newMerged(&out, true)
	for range 70 {
		if err := m.part(&api.LogPart{Data: []byte(strings.Repeat("x", 1024))}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.pending[origin{}]); n > maxLine || len(out.String()) < maxLine {
		t.Errorf("%d bytes are kept, %d written", n, len(out.String()))
	}
}

func TestVersion(t *testing.T) {
	f := startFake(t)
	cli(f.address, "version").wants(t, 0, "scheduler v9 at "+f.address+", cluster c1, epoch 3\n", "")
	cli("127.0.0.1:1", "version", "--client").wants(t, 0, "synapse-cli ", "")
}

func TestDocs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	cli("", "docs", "man", dir).wants(t, 0, "", "")
	page, err := os.ReadFile(filepath.Join(dir, "synapse-cli-submit.1"))
	if err != nil || !strings.Contains(string(page), `allow\-infeasible`) {
		t.Errorf("%v: %s", err, page)
	}
	help := cli("", "--help")
	for _, hidden := range []string{"docs", "racks"} {
		if strings.Contains(help.out, "  "+hidden+" ") {
			t.Errorf("%s is listed", hidden)
		}
	}
}

func TestCompletion(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.put(job("jbb1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.nodes = []*messages.NodeStatus{machine("n1")}
	cli(f.address, "__complete", "cancel", "ja").wants(t, 0, "jaa1\tqueued, n-jaa1\n:4\n", "")
	cli(f.address, "__complete", "drain", "").wants(t, 0, "n1\tup\n", "")
	for line, want := range map[string]string{
		"submit -w n1,": "n1,n1\tup\n:4\n", "submit --exclude n": "n1\tup\n", "submit --network pr": "private\n",
		"submit --launcher d": "deepspeed\n",
		"submit --split a":    "any\n", "submit --dry-run=s": "server\n", "submit -o n": "name\n",
		"get jobs --phase running,ti": "running,timed-out\n:4\n", "get jobs --sort p": "phase\npriority\n",
		"history --state fa": "failed\n", "history --sum d": "day\n", "events n": "n1\tup\n", "events -o y": "yaml\n",
		"watch -o y": "yaml\n", "explain jb": "jbb1\t", "uncordon n": "n1\tup\n", "submit --preferred z": "zone\n",
	} {
		cli(f.address, append([]string{"__complete"}, strings.Fields(line)...)...).wants(t, 0, want, "")
	}
	cli("127.0.0.1:1", "__complete", "drain", "").wants(t, 0, ":4\n", "")
	cli("", "completion", "bash").wants(t, 0, "synapse-cli", "")
	cli("", "completion", "tcsh").wants(t, exit.Misuse, "", "unknown command \"tcsh\"")
	cli("", "help", "nosuch").wants(t, exit.Misuse, "", "unknown command \"nosuch\"")
	cli("", "help", "get", "jobs").wants(t, 0, "Lists unfinished jobs", "")
}
