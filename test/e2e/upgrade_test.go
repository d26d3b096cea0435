package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file tests the change of a cluster from plaintext to TLS. No job may end because of it. Jobs from before belong
// to admins until an admin gives them to a user.

func TestFromPlaintextToTLS(t *testing.T) {
	c := newCluster(t)
	agents := map[string]*process{"n1": c.node("n1", "r1"), "n2": c.node("n2", "r1")}
	file := filepath.Join(c.dir, "go-on")
	id := c.submit(gang(2, 8, "echo env-of-before; while [ ! -e "+file+" ]; do sleep 0.1; done"))
	waiting := c.submit(gang(2, 8, "true"))
	c.await(id, "running")
	before := c.job(id)

	// As in docs/operate/upgrade.md. The nodes are without a scheduler for longer than the silence limit.
	s := &secured{c, filepath.Join(t.TempDir(), "keys")}
	by, token := filepath.Join(s.keys, "scheduler"), filepath.Join(s.keys, "token")
	made := ask(t, c.command(filepath.Join(bin, "synapse-cli"), "init", s.keys, "--cluster", "e2e"))
	made.wants(t, 0, "", "The keys of cluster e2e are in")
	s.cli("token", "create", "--by", by, "--uses", "2", "--out", token).wants(t, 0, "", "")
	ends(c.scheduler)
	for name, old := range agents {
		ends(old)
		agents[name] = s.agent(name, "r1", "--tls", filepath.Join(s.keys, name), "--token", token)
	}
	time.Sleep(actors.DefaultConstants().DeadAfter + time.Second)
	c.lead(c.address, "--tls", by)
	for _, agent := range agents {
		agent.says(t, "Success! Master says: Welcome to Synapse")
	}
	badge, err := credential.OpenBadge(filepath.Join(s.keys, "admin"), identity.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	s.client = s.through(badge)
	s.await(id, "running")
	after := s.job(id)
	if got, want := after.GetAttempt().GetToken(), before.GetAttempt().GetToken(); got.GetEpoch() != want.GetEpoch() ||
		got.GetCounter() != want.GetCounter() || after.GetRecord().GetRuns() != before.GetRecord().GetRuns() {
		t.Fatalf("another attempt runs: %v, before: %v", after, before)
	}
	s.given(id)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.await(id, "succeeded")
	s.await(waiting, "succeeded")
}

// ends sends SIGTERM to a process, and waits until it has ended.
func ends(p *process) {
	p.signal(syscall.SIGTERM)
	<-p.ended
}

// given checks that the content of a job is only for admins until one gives it to a user.
func (s *secured) given(id string) {
	t := s.t
	ann, bob := s.folder("submitter", "ann"), s.folder("submitter", "bob")
	admin := filepath.Join(s.keys, "admin")
	said := s.as(ann, "describe", "job", id).wants(t, 0, "anonymous", "").out
	if strings.Contains(said, "env-of-before") {
		t.Errorf("ann sees %s", said)
	}
	s.as(ann, "cancel", id).wants(t, 5, "", "may not cancel job "+id+" of anonymous")
	s.as(ann, "update", id, "--owner", "ann").wants(t, 5, "", "may not change the owner of jobs")
	s.as(admin, "update", id, "--owner", "ann").wants(t, 0, "has owner ann", "")
	s.as(ann, "describe", "job", id).wants(t, 0, "env-of-before", "")
	s.as(ann, "get", "jobs", "--me", "-q").wants(t, 0, id, "")
	s.as(ann, "update", id, "--time-limit", "1h").wants(t, 0, "", "")
	s.as(bob, "cancel", id).wants(t, 5, "", "may not cancel job "+id+" of ann")
	own := strings.TrimSpace(
		s.as(ann, "submit", "-q", "--cpu", "1", "--image", "host", "--begin", "now+2h", "--", "true").out)
	s.as(admin, "update", own, "--owner", "bob").wants(t, 4, "", "job belongs to ann\nhint: ")
	s.as(ann, "cancel", own).wants(t, 0, "", "")
}
