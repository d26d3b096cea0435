package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests roles with real processes: two submitters, one viewer, and one operator.

func TestRoles(t *testing.T) {
	s := newSecured(t)
	folders := map[string]string{"admin": filepath.Join(s.keys, "admin")}
	for name, role := range map[string]string{"ann": "submitter", "bob": "submitter", "vic": "viewer", "oli": "operator",
		"nobody": "submitter"} {
		folders[name] = s.folder(role, name)
	}
	as := func(who string, args ...string) result { return s.as(folders[who], args...) }
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	as("ann", "whoami").wants(t, 0, "ann, submitter of cluster e2e, until ", "")
	as("vic", "whoami", "-o", "json").wants(t, 0, `"role": "viewer"`, "")

	const secret = "the-secret-of-ann"
	got := as("ann", "submit", "-q", "--cpu", "1", "--image", "host", "-e", "TOKEN="+secret,
		"--", "sh", "-c", "echo "+secret+"; sleep 600")
	got.wants(t, 0, "", "")
	id := strings.TrimSpace(got.out)
	s.await(id, "running")
	as("ann", "describe", "job", id).wants(t, 0, secret, "")
	limit := pace.Until(20 * time.Second)
	for !strings.Contains(as("ann", "logs", id).out, secret) && time.Now().Before(limit) {
		time.Sleep(50 * time.Millisecond)
	}
	as("ann", "logs", id).wants(t, 0, secret, "")
	as("ann", "get", "jobs", "--me", "-q").wants(t, 0, id, "")
	if got := as("bob", "get", "jobs", "--me", "-q").wants(t, 0, "", ""); strings.Contains(got.out, id) {
		t.Errorf("bob has %s", got.out)
	}

	// No other user sees its content by any way, and only permitted users may end it.
	for _, who := range []string{"bob", "vic", "oli"} {
		said := ""
		for _, args := range [][]string{
			{"get", "jobs", "-o", "json"}, {"get", "jobs", "-o", "yaml"}, {"describe", "job", id}, {"explain", id},
			{"describe", "job", id, "-o", "json"}, {"get", "nodes", "-o", "json"},
		} {
			said += as(who, args...).wants(t, 0, "", "").out
		}
		if strings.Contains(said, secret) || !strings.Contains(said, "Withheld: ") ||
			!strings.Contains(said, `"withheld": true`) {
			t.Errorf("%s is shown %s", who, said)
		}
		as(who, "logs", id).wants(t, 5, "", who+" (")
		as(who, "logs", "-f", id).wants(t, 5, "", "may not read the output of job "+id+" of ann")
		as(who, "submit", "--from", id).wants(t, 5, "", "its environment and command are hidden from you")
	}
	for _, who := range []string{"bob (submitter)", "oli (operator)"} {
		as(who[:3], "exec", id, "--", "env").
			wants(t, 5, "", who+" may not run processes in the tasks of job "+id+" of ann")
	}
	as("vic", "exec", id, "--", "env").wants(t, 5, "", "vic (viewer) may not run processes in the tasks of jobs")
	as("ann", "exec", id, "--", "env").wants(t, 0, "TOKEN="+secret, "")
	as("admin", "exec", id, "--", "env").wants(t, 0, "TOKEN="+secret, "")
	as("bob", "cancel", id).wants(t, 5, "", "bob (submitter) may not cancel job "+id+" of ann")
	as("bob", "update", id, "--time-limit", "1s").wants(t, 5, "", "may not set the time limit of job")
	s.says("Refused /synapse.v1.Synapse/Cancel to synapse://e2e/submitter/bob: may not cancel job " + id + " of ann")
	as("vic", "submit", "--cpu", "1", "--image", "host", "--", "true").wants(t, 5, "", "vic (viewer) may not submit jobs")
	as("bob", "cordon", "n1", "--reason", "x").wants(t, 5, "", "may not cordon, uncordon and annotate nodes")
	as("oli", "cordon", "n1", "--reason", "x").wants(t, 0, "", "")
	as("oli", "uncordon", "n1").wants(t, 0, "", "")
	as("admin", "describe", "job", id).wants(t, 0, secret, "")
	as("admin", "submit", "--from", id, "-q").wants(t, 0, "", "")
	as("oli", "cancel", id).wants(t, 0, "", "")
	s.await(id, "cancelled")
	s.arrayMost(as)
	s.mapped(as)
	s.accounted(as, id, secret)
}

// arrayMost checks that only the owner of an array and an operator can change its limit of running elements.
func (s *secured) arrayMost(as func(string, ...string) result) {
	id := strings.TrimSpace(as("ann", "submit", "-q", "--array", "0-9%1", "--cpu", "1", "--image", "host", "--",
		"sleep", "600").wants(s.t, 0, "", "").out)
	as("ann", "update", id, "--array-max-running", "3").wants(s.t, 0, "3 elements at once", "")
	as("oli", "update", id, "--array-max-running", "2", "--priority", "5").wants(s.t, 0, "2 elements at once", "")
	as("bob", "update", id, "--array-max-running", "4").wants(s.t, 5, "",
		"bob (submitter) may not set the concurrency limit of job "+id+" of ann")
	as("vic", "update", id, "--array-max-running", "4").wants(s.t, 5, "",
		"vic (viewer) may not set the concurrency limit")
	as("ann", "cancel", id).wants(s.t, 0, "", "")
}

// accounted checks that the scheduler's audit log contains all of these actions, without the job's content, and that a
// changed line is detected.
func (s *secured) accounted(as func(string, ...string) result, id, secret string) {
	dir := filepath.Join(s.dir, "scheduler", "audit")
	said := as("admin", "audit", dir).wants(s.t, 0, "cancel job "+id+" of ann: refused", "").out
	for _, part := range []string{
		"submitter/ann", "see the env and the command of jobs of ann", "cancel job=" + id + ": asked",
	} {
		if !strings.Contains(said, part) {
			s.t.Errorf("%q is not in the audit log: %s", part, said)
		}
	}
	if strings.Contains(said, secret) {
		s.t.Errorf("the audit log contains the secret: %s", said)
	}
	as("admin", "audit", "verify", dir).wants(s.t, 0, "all intact", "")
	file := filepath.Join(dir, "audit.log")
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	other := filepath.Join(s.dir, "changed")
	if err := os.MkdirAll(other, 0o700); err != nil {
		s.t.Fatal(err)
	}
	changed := strings.Replace(string(text), "submitter/bob", "submitter/ann", 1)
	if err := os.WriteFile(filepath.Join(other, "audit.log"), []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
	as("admin", "audit", "verify", other).wants(s.t, 4, "", "does not follow from the previous line")
}

// mapped checks that a node's policy assigns a user to the jobs of an owner, if owners are proven.
func (s *secured) mapped(as func(string, ...string) result) {
	if os.Geteuid() != 0 {
		return // its agent can only run tasks as itself
	}
	policy := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("users: {owners: {ann: nobody}}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.node("n2", "r1", "--tls", s.folder("node", "n2"), "--job-policy", policy)
	on := func(who, user string) result {
		args := []string{"submit", "--cpu", "1", "--image", "host", "--nodelist", "n2", "--attach"}
		if user != "" {
			args = append(args, "--user", user)
		}
		return as(who, append(args, "--", "id", "-u")...)
	}
	on("ann", "").wants(s.t, 0, "65534\n", "")
	on("ann", "me").wants(s.t, 0, "65534\n", "")
	on("ann", "root").wants(s.t, 1, "", "jobs of ann run as nobody on this node, and not as root")
	on("bob", "nobody").wants(s.t, 7, "", "no node runs jobs of bob as nobody")
	on("bob", "me").wants(s.t, 7, "", "no node has an account bob that jobs may run as").
		wants(s.t, 7, "", "leave --user out").wants(s.t, 7, "", "users.owners")
	on("nobody", "me").wants(s.t, 0, "65534\n", "")
	on("nobody", "nobody").wants(s.t, 0, "65534\n", "")
	deny := filepath.Join(s.dir, "deny.yaml")
	if err := os.WriteFile(deny, []byte("users: {denyGroups: [nogroup, nobody]}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.node("n3", "r1", "--tls", s.folder("node", "n3"), "--job-policy", deny)
	as("admin", "describe", "node", "n2").wants(s.t, 0, "(--user me), of ", "").
		wants(s.t, 0, "users.owners: 1 owner: ann as nobody\n", "")
	// admins may see the names, and n3 denies nobody
	for who, node := range map[string]string{"bob": "n2", "admin": "n3"} {
		said := as(who, "describe", "node", node).wants(s.t, 0, "Users:  ", "")
		if strings.Contains(said.out, "nobody") {
			s.t.Errorf("%s sees of %s: %s", who, node, said.out)
		}
	}
	refused := as("nobody", "submit", "--cpu", "1", "--image", "host", "--nodelist", "n3", "--user", "me", "--", "true")
	refused.wants(s.t, 7, "", "no matching node runs jobs of nobody as nobody").
		wants(s.t, 7, "", "hint: leave --user out, so that the job gets a separate uid")
}
