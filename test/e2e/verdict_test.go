package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/test/able"
)

// This file tests the verdicts on real gangs: the first rank that failed, the class, and whether the failure counts.

// ring is a gang in which each rank holds a connection to rank 0. Rank 5 fails, and the connections of all others
// break.
const ring = `import os, socket, time
rank, size = int(os.environ["SYNAPSE_RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(at); s.listen(64)
    others = [s.accept()[0] for _ in range(size - 1)]
    for o in others: o.sendall(b"go")
    while True:
        for o in others:
            o.settimeout(0.02)
            try:
                if o.recv(1) == b"":
                    time.sleep(0.5) # the peer is still about to exit
                    raise ConnectionError("Connection closed by peer")
            except TimeoutError: pass
else:
    while True:
        try: c = socket.create_connection(at); break
        except OSError: time.sleep(0.05)
    c.recv(2)
    if rank == 5:
        time.sleep(0.2)
        raise ValueError("bad batch")
    if c.recv(1) == b"": raise ConnectionResetError("Connection reset by peer")
`

// TestVerdicts checks the verdict on each ending of a gang on two nodes.
func TestVerdicts(t *testing.T) {
	able.Need(t, able.Program("python3"))
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	for name, e := range map[string]struct {
		tasks int32
		gpus  float64
		shell string
		limit int64
		want  string
	}{
		"a cascade": {8, 1, "cat > ring.py <<'END'\n" + ring + "END\nexec python3 ring.py", 0,
			"user charged 5 7: ValueError: bad batch in ring.py:"},
		"an exit code":      {2, 8, `[ $SYNAPSE_RANK = 1 ] && exit 3; sleep 600`, 0, "user charged 1 1: exited with code 3"},
		"the time limit":    {1, 1, "sleep 600", 1000, "timeout free -1 0: "},
		"a missing program": {1, 1, "exec no-such-program", 0, "user charged 0 0: "},
		"a full device": {1, 1, "exec python3 -c 'open(\"/dev/full\", \"w\", 1).write(\"x\\n\")'", 0,
			"user charged 0 0: "},
	} { //order: each case by itself
		spec := gang(e.tasks, e.gpus, e.shell)
		spec.Name, spec.TimeLimitMs = "end", e.limit
		id := c.submit(spec)
		s := c.until(id, "over", func(s *messages.JobStatus) bool { return s.Record.State.Terminal() })
		if got := verdictOf(s); !strings.HasPrefix(got, e.want) {
			t.Errorf("%s: %s, want %s", name, got, e.want)
		}
	}
}

// verdictOf returns the verdict on the last attempt of a job in one line.
func verdictOf(s *messages.JobStatus) string {
	v := s.Attempt.GetVerdict()
	charged := "free"
	if v.GetCharged() {
		charged = "charged"
	}
	reason := v.GetExplanation()
	if reason == "" {
		reason = v.GetReason()
	}
	return fmt.Sprintf("%s %s %d %d: %s", verdict.Word(v.GetClass()), charged, v.GetRank(), v.GetOthers(), reason)
}

// TestVerdictOnLostNode checks a gang whose node dies at once, while its peers see only broken connections. The failure
// counts against the node, and not against the job.
func TestVerdictOnLostNode(t *testing.T) {
	able.Need(t, able.Program("python3"))
	c := newCluster(t)
	c.node("n1", "r1")
	lost := c.node("n2", "r1")
	dir := t.TempDir()
	spec := gang(2, 8, `touch DIR/$SYNAPSE_RANK.$SYNAPSE_NODE
while [ ! -e DIR/broken ]; do sleep 0.05; done
echo 'Connection reset by peer' >&2; exit 1`)
	spec.Command[2] = strings.ReplaceAll(spec.Command[2], "DIR", dir)
	id := c.submit(writing(t, dir, spec))
	c.until(id, "begun", func(*messages.JobStatus) bool {
		begun, _ := filepath.Glob(filepath.Join(dir, "?.*"))
		return len(begun) == 2
	})
	c.await(id, "running")
	c.crash(lost)
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := c.until(id, "judged", func(s *messages.JobStatus) bool {
		return s.Attempt.GetVerdict() != nil && s.Record.LastFailure != nil
	})
	if s.Record.Failures != 0 || s.Record.InfraRestarts != 1 {
		t.Errorf("%d failures, %d restarts: %s", s.Record.Failures, s.Record.InfraRestarts, verdictOf(s))
	}
	if v := s.Record.LastFailure; v.Class != messages.FailureClass_FAILURE_CLASS_NODE || v.Node != "n2" {
		t.Errorf("%v", v)
	}
	c.cli("describe", "job", id).wants(t, 0, "does not count against restart.limit", "")
}

// TestSameFailureTwice checks that a job which fails with the same traceback at the same step again is not retried, and
// that a kill by another process is not charged.
func TestSameFailureTwice(t *testing.T) {
	able.Need(t, able.Program("python3"))
	c := newCluster(t)
	c.node("n1", "r1")
	spec := gang(1, 1, `echo '{"step":1200,"total":5000}' >> "$SYNAPSE_PROGRESS"; exec python3 -c '{}["x"]'`)
	spec.Restart = &messages.RestartSpec{Limit: 5, BackoffMs: 1}
	id := c.submit(spec)
	s := c.await(id, "failed")
	if s.Record.Runs != 2 || !strings.Contains(s.Record.Outcome, "same error at the same step (1200)") {
		t.Errorf("%d attempts: %s", s.Record.Runs, s.Record.Outcome)
	}
	c.cli("describe", "job", id).wants(t, 0, "KeyError: 'x'", "")
	dir := t.TempDir()
	spec = gang(1, 1, `[ -e DIR/pid ] && exit 0; echo $$ > DIR/new; mv DIR/new DIR/pid; exec sleep 600`)
	spec.Command[2] = strings.ReplaceAll(spec.Command[2], "DIR", dir)
	id = c.submit(writing(t, dir, spec))
	c.await(id, "running")
	c.until(id, "killed", func(*messages.JobStatus) bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil
	})
	s = c.await(id, "succeeded")
	if s.Record.Failures != 0 || s.Record.InfraRestarts != 1 ||
		s.Record.LastFailure.GetClass() != messages.FailureClass_FAILURE_CLASS_UNKNOWN {
		t.Errorf("%d failures, %d restarts, %v", s.Record.Failures, s.Record.InfraRestarts, s.Record.LastFailure)
	}
}

// TestVerdictOnProlog checks that a failed prolog counts against the node and not against the job, and that a job which
// its owner cancels has no verdict.
func TestVerdictOnProlog(t *testing.T) {
	c := newCluster(t)
	prolog := filepath.Join(t.TempDir(), "prolog")
	text := "#!/bin/sh\necho the scratch disk is missing >&2\nexit 1\n"
	if err := os.WriteFile(prolog, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	c.node("n1", "r1", "--prolog", prolog)
	id := c.submit(gang(1, 1, "exit 0"))
	s := c.until(id, "refused by the prolog", func(s *messages.JobStatus) bool { return s.Record.LastFailure != nil })
	v := s.Record.LastFailure
	if v.Class != messages.FailureClass_FAILURE_CLASS_NODE || v.Charged || v.Node != "n1" || s.Record.Failures != 0 ||
		!strings.Contains(v.Reason+v.Explanation, "prolog") {
		t.Errorf("%d failures, %v", s.Record.Failures, v)
	}
	c.cli("cancel", id).wants(t, 0, "", "")
	c.node("n2", "r1")
	id = c.submit(gang(1, 1, "sleep 600"))
	c.await(id, "running")
	c.cli("cancel", id).wants(t, 0, "", "")
	if s := c.await(id, "cancelled"); s.Attempt.GetVerdict() != nil || s.Record.Failures != 0 {
		t.Errorf("a cancelled job has %v", s.Attempt.Verdict)
	}
}
