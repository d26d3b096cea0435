package authn

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
)

// audited returns a rig with an audit log.
func audited(t *testing.T) (s *rig, served *scripted, read func() string) {
	s, served = callsStage(t)
	dir := t.TempDir()
	s.gate.o.Audit = must(audit.Open(dir, s.clock, s.log))
	t.Cleanup(func() { s.gate.o.Audit.Close() })
	return s, served, func() string {
		text := must(os.ReadFile(filepath.Join(dir, audit.File)))
		var lines []string
		if _, err := audit.Read(bytes.NewReader(text), func(l audit.Line) error {
			lines = append(lines, strings.Join([]string{l.Who, l.Call, l.What, l.Outcome}, "|"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
}

// TestAuditOfWebSubmits checks that a submit from the web UI has the user and the hash of the job file in the audit
// log, that a copy names its job, and that only users with the right may submit there.
func TestAuditOfWebSubmits(t *testing.T) {
	s, _, read := audited(t)
	ann, wall := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleViewer, "wall")
	spec := &messages.JobSpec{Name: "train", Image: "host", Command: []string{"hush"}}
	file := "sha256:" + strings.Repeat("ab", 32)
	_, _ = ann.Submit(t.Context(), &messages.Submit{RequestId: "r1", Spec: spec, WebSource: file})
	_, _ = ann.Submit(t.Context(), &messages.Submit{RequestId: "r2", Job: "of-ann", WebSource: messages.WebAgain})
	for name, by := range map[string]api.SynapseClient{"of-bob": ann, "of-ann": wall} {
		_, err := by.Submit(t.Context(), &messages.Submit{Job: name, WebSource: messages.WebAgain})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("a copy of the job %s: %v", name, err)
		}
	}
	_, err := wall.DryRun(t.Context(), &messages.DryRun{Spec: spec, WebSource: file})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a dry run by a viewer: %v", err)
	}
	lines := read()
	for _, want := range []string{"ann", "submit jobs from the web UI", "request_id=r1 web_source=" + file, "name=train",
		"job=of-ann request_id=r2 web_source=again", "see the env and the command of job of-bob"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, lines)
		}
	}
	if strings.Contains(lines, "hush") {
		t.Errorf("the content of a job is in\n%s", lines)
	}
}

func person(t *testing.T, s *rig, role identity.Role, name string) api.SynapseClient {
	conn, _ := s.open(s.badge(s.by, role, name).Credentials(nil))
	return api.NewSynapseClient(conn)
}

// TestAudit checks the audit lines of calls. A change has a line before and a line with its result, and a refusal
// has one line. Reads of one's own jobs and of lists have none. No line contains the content of a job.
func TestAudit(t *testing.T) {
	s, _, read := audited(t)
	ann, root := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleAdmin, "root")
	ctx := t.Context()
	const secret = "hush"
	_, _ = ann.Submit(ctx, &messages.Submit{RequestId: "r1", Spec: &messages.JobSpec{
		Name: "train", Image: "host", Command: []string{secret}, Env: []*messages.EnvVar{{Name: "T", Value: secret}},
	}})
	_, _ = ann.Cancel(ctx, &messages.Cancel{Job: "of-bob"})
	_, _ = root.Cancel(ctx, &messages.Cancel{Job: "of-bob", Reason: "too long"})
	_, _ = ann.ListJobs(ctx, &messages.ListJobs{})
	for _, q := range []struct {
		who api.SynapseClient
		job string
	}{{ann, "of-ann"}, {root, "of-bob"}} {
		if stream, err := q.who.ReadLogs(ctx, &api.ReadLogs{Job: q.job}); err == nil {
			_, _ = stream.Recv()
		}
	}
	const (
		people = "synapse://c-a/"
		call   = "|/synapse.v1.Synapse/"
	)
	want := strings.Join([]string{
		people + "submitter/ann" + call + "Submit|submit jobs, name an image request_id=r1 name=train image=host|asked",
		people + "submitter/ann" + call + "Submit||",
		people + "submitter/ann" + call + "Cancel|cancel job of-bob of bob|refused",
		people + "admin/root" + call + "Cancel|cancel job=of-bob reason=too long|asked",
		people + "admin/root" + call + "Cancel||",
		people + "admin/root" + call + "ReadLogs|read the output of job=of-bob of bob|asked",
		people + "admin/root" + call + "ReadLogs||",
	}, "\n")
	got := read()
	lines := strings.Split(got, "\n")
	for i, prefix := range strings.Split(want, "\n") {
		if i >= len(lines) || !strings.HasPrefix(lines[i], prefix) {
			t.Fatalf("line %d should be %q:\n%s", i, prefix, got)
		}
	}
	if len(lines) != 7 || strings.Contains(got, secret) {
		t.Errorf("%s", got)
	}
}

// TestAuditOfReads checks that a read of another user's env is audited before the answer is sent, once per call.
func TestAuditOfReads(t *testing.T) {
	s, _, read := audited(t)
	peer := identity.Peer{Identity: identity.Identity{Cluster: "c-a", Role: identity.RoleAdmin, Name: "root"}}
	c := &checkedCall{gate: s.gate, ctx: t.Context(), peer: peer, call: "/synapse.v1.Synapse/Watch"}
	for _, owner := range []string{"root", "bob", "bob", "ann"} {
		record := &messages.JobRecord{Owner: &messages.Principal{Name: owner}}
		if _, err := c.show(&messages.Event{Job: &messages.JobStatus{Record: record}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "of jobs of bob|ok\n") ||
		!strings.HasSuffix(got, "of jobs of ann|ok") {
		t.Errorf("%s", got)
	}
}

// TestNothingWithoutItsLine checks that without its audit line a call is not made, an answer is not sent, and no
// certificate is signed.
func TestNothingWithoutItsLine(t *testing.T) {
	s, served, _ := audited(t)
	broken := s.gate.o.Audit
	root := person(t, s, identity.RoleAdmin, "root")
	if _, err := root.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"}); status.Code(err) != codes.Aborted {
		t.Fatalf("with a good account: %v", err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	before := served.reached.Load()
	if _, err := root.Cancel(t.Context(), &messages.Cancel{Job: "of-bob"}); status.Code(err) != codes.Unavailable {
		t.Errorf("cancel: %v", err)
	}
	if stream, err := root.ReadLogs(t.Context(), &api.ReadLogs{Job: "of-bob"}); err == nil {
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("logs: %v", err)
		}
	}
	c := &checkedCall{gate: s.gate, ctx: t.Context(), call: "x", peer: identity.Peer{
		Identity: identity.Identity{Cluster: "c-a", Role: identity.RoleAdmin, Name: "root"},
	}}
	if _, err := c.show(&messages.GetJobReply{Job: &messages.JobStatus{Record: &messages.JobRecord{}}}); err == nil {
		t.Error("what could not be written down was shown")
	}
	if served.reached.Load() != before {
		t.Error("a call was made that could not be written down")
	}
	b := s.badge(s.by, identity.RoleNode, "n1")
	if err := b.Renew(t.Context(), []string{s.address}); err == nil {
		t.Error("a certificate was signed that could not be written down")
	}
}
