package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// secretRun is a cluster that runs jobs with secrets.
type secretRun struct {
	*secured
	ann    string
	values map[string]string // values by the name of their file
}

func (r *secretRun) file(name string) string { return filepath.Join(r.keys, "values-"+name) }

// submits submits a job of ann's that prints the digests of its secrets, and stays.
func (r *secretRun) submits(machine string, env, file bool) string {
	r.t.Helper()
	args, script := []string{"submit", "-q", "--cpu", "1", "--image", "host", "--grace", "1s", "--nodelist", machine}, ""
	if env {
		args = append(args, "--secret-env", "TOKEN=@"+r.file("TOKEN"))
		script += "printf %s \"$TOKEN\" | sha256sum; "
	}
	if file {
		args = append(args, "--secret", "key.pem=@"+r.file("key.pem"))
		script += "sha256sum < /run/secrets/key.pem; stat -c '%a %s' /run/secrets/key.pem; touch /run/secrets/x; "
	}
	got := r.as(r.ann, append(args, "--", "sh", "-c", script+"echo told; sleep 600")...)
	got.wants(r.t, 0, "", "")
	return strings.TrimSpace(got.out)
}

// told waits until the job has printed its digests, and compares them with the submitted secrets.
func (r *secretRun) told(id string, times int, names ...string) {
	r.t.Helper()
	var said string
	for limit := pace.Until(40 * time.Second); strings.Count(said, "told") < times; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			r.t.Fatalf("job %s said %q; %v", id, said, r.job(id))
		}
		said = r.as(r.ann, "logs", id).out
	}
	for _, name := range names {
		sum := sha256.Sum256([]byte(r.values[name]))
		if !strings.Contains(said, hex.EncodeToString(sum[:])) {
			r.t.Errorf("job %s did not get %s: %q", id, name, said)
		}
	}
}

// nowhere searches for the values in every file of the scheduler and the nodes, in all their logs, and in every answer.
func (r *secretRun) nowhere(when string, agents ...*process) {
	r.t.Helper()
	has := func(text []byte) bool {
		for _, value := range r.values {
			if bytes.Contains(text, []byte(value)) ||
				bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(value)))) {
				return true
			}
		}
		return false
	}
	files := 0
	_ = filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if files++; err == nil && has(text) {
			r.t.Errorf("%s: %s has a secret", when, path)
		}
		return nil
	})
	if files < 10 {
		r.t.Errorf("%s: only %d files were looked at", when, files)
	}
	for _, p := range append(agents, r.scheduler) {
		if has([]byte(p.said())) {
			r.t.Errorf("%s: %s logs a secret", when, p.name)
		}
	}
	for _, who := range []string{r.ann, filepath.Join(r.keys, "admin")} {
		for _, args := range [][]string{
			{"get", "jobs", "-o", "yaml"}, {"get", "jobs", "-o", "json"}, {"get", "jobs", "-o", "wide"},
			{"history", "-o", "json"}, {"events", "--since", "1h"}, {"audit", filepath.Join(r.dir, "scheduler", "audit")},
		} {
			if got := r.as(who, args...); has([]byte(got.out + got.err)) {
				r.t.Errorf("%s: %v shows a secret", when, args)
			}
		}
	}
}

// TestSecrets checks that a secret of a job reaches its tasks, as a file in memory or as a variable, as far as each
// driver supports it. This must also work with a later agent and in a later attempt. The secret must be in no file, log
// or answer, and must be requested again when the job is submitted once more.
func TestSecrets(t *testing.T) {
	needDriver(t, "oci")
	s := newSecured(t)
	r := &secretRun{s, s.folder("submitter", "ann"), map[string]string{
		"TOKEN": "hush-token-5f1c0f", "key.pem": "-----hush-key-77ab31-----\nof two lines\n",
	}}
	for name, value := range r.values {
		if err := os.WriteFile(r.file(name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.node("p1", "r1", "--tls", s.folder("node", "p1"))
	s.contain("carapace")
	c1 := s.node("c1", "r1", "--tls", s.folder("node", "c1"))
	o1 := s.node("o1", "r1", "--tls", s.folder("node", "o1"), "--driver", "oci")
	both, env, file := r.submits("c1", true, true), r.submits("p1", true, false), r.submits("o1", false, true)
	r.told(both, 1, "TOKEN", "key.pem")
	r.told(env, 1, "TOKEN")
	r.told(file, 1, "key.pem")
	for _, id := range []string{both, file} {
		if said := r.as(r.ann, "logs", id).out; !strings.Contains(said, "400 39") || strings.Count(said, "ead-only") != 1 {
			t.Errorf("the file of job %s: %q", id, said)
		}
	}
	got := r.as(r.ann, "submit", "-q", "--cpu", "1", "--image", "host", "--nodelist", "none", "--allow-infeasible",
		"--secret", "key.pem=@"+r.file("key.pem"), "--", "true")
	got.wants(t, 0, "", "")
	waits := strings.TrimSpace(got.out)
	r.nowhere("while they run", c1, o1)
	if shown := r.job(both).GetRecord(); len(shown.GetSealed()) > 0 || len(shown.GetSpec().GetSecrets()) != 2 {
		t.Errorf("an admin sees %v", shown)
	}

	r.refusedSecrets(both)
	r.onlyToItsMachine(both)
	c1.kill()
	<-c1.silent
	c1 = s.node("c1", "r1", "--tls", filepath.Join(s.keys, "c1"))
	s.as(r.ann, "requeue", both).wants(t, 0, "", "")
	r.told(both, 1, "TOKEN", "key.pem")
	r.nowhere("by a later agent", c1)

	r.again(both)
	for _, id := range []string{both, env, file, waits} {
		s.as(r.ann, "cancel", id).wants(t, 0, "", "")
		s.await(id, "cancelled")
	}
	r.nowhere("when they are over", c1, o1)
	r.unkept(both, env, file, waits)
}

// unkept checks that no secret of a finished job is left, not even its sealed form.
func (r *secretRun) unkept(ids ...string) {
	r.t.Helper()
	r.scheduler.kill()
	<-r.scheduler.silent
	store, err := sqlite.Open(filepath.Join(r.dir, "scheduler", "synapse.db"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	for _, id := range ids {
		record, _, err := store.Job(topology.JobID(id))
		if err != nil || len(record.GetSealed()) > 0 || len(record.GetSpec().GetSecrets()) == 0 {
			r.t.Errorf("the record of job %s: %v, %v", id, record, err)
		}
	}
}

// refusedSecrets checks that a secret that would show its value, or has none, is rejected before anything is sent.
func (r *secretRun) refusedSecrets(id string) {
	r.t.Helper()
	one := []string{"submit", "--cpu", "1", "--image", "host"}
	for words, args := range map[string][]string{
		"a secret's value is not accepted on the command line": {"--secret", "TOKEN=" + r.values["TOKEN"]},
		"environment variable TOKEN is not set":                {"--secret-env", "TOKEN=env"},
		"is not a valid variable name":                         {"--secret-env", "key.pem=@" + r.file("key.pem")},
		"is not a valid name":                                  {"--secret", "../x=@" + r.file("key.pem")},
		"is given twice":                                       {"--secret", "a=env", "--secret-env", "a=env"},
	} {
		got := r.as(r.ann, append(append(one, args...), "--", "true")...)
		if got.wants(r.t, 2, "", words); strings.Contains(got.err, r.values["TOKEN"]) {
			r.t.Errorf("the error contains the value: %s", got.err)
		}
	}
	r.as(r.ann, "submit", "--from", id).
		wants(r.t, 2, "", "secret key.pem: value is missing: secrets are not stored with the job file")
	r.as(r.ann, "submit", "--from", id, "--secret", "other=@"+r.file("TOKEN")).
		wants(r.t, 2, "", "unknown secret other: no job here uses it")
}

// again submits the same job once more, with its secrets given again.
func (r *secretRun) again(id string) {
	r.t.Helper()
	got := r.as(r.ann, "submit", "-q", "--from", id, "--secret", "TOKEN=@"+r.file("TOKEN"), "--secret",
		"key.pem=@"+r.file("key.pem"))
	got.wants(r.t, 0, "", "")
	next := strings.TrimSpace(got.out)
	r.told(next, 1, "TOKEN", "key.pem")
	r.as(r.ann, "cancel", next).wants(r.t, 0, "", "")
}

// onlyToItsMachine checks that a node gets the secrets of an attempt with tasks there until the attempt ends. Another
// node, and users of any role, get none.
func (r *secretRun) onlyToItsMachine(id string) {
	r.t.Helper()
	attempt := r.job(id).GetRecord().GetAttempt()
	asks := func(folder, job string, attempt *messages.Token, roles ...identity.Role) (*messages.Secrets, codes.Code) {
		badge, err := credential.OpenBadge(filepath.Join(r.keys, folder), roles...)
		if err != nil {
			r.t.Fatal(err)
		}
		got, err := r.through(badge).ReadSecrets(r.ctx(), &api.ReadSecrets{Job: job, Attempt: attempt})
		return got, status.Code(err)
	}
	if got, code := asks("c1", id, attempt, identity.RoleNode); code != codes.OK || len(got.GetSecrets()) != 2 {
		r.t.Errorf("its own node gets %v: %v", got, code)
	}
	other := &messages.Token{Epoch: attempt.Epoch, Counter: attempt.Counter + 1}
	for what, of := range map[string]struct {
		folder, job string
		attempt     *messages.Token
		role        identity.Role
	}{
		"another machine": {"p1", id, attempt, identity.RoleNode}, "an admin": {"admin", id, attempt, identity.RoleAdmin},
		"its owner":       {"ann", id, attempt, identity.RoleSubmitter},
		"another attempt": {"c1", id, other, identity.RoleNode}, "no such job": {"c1", "jnone", attempt, identity.RoleNode},
	} {
		if got, code := asks(of.folder, of.job, of.attempt, of.role); code != codes.PermissionDenied {
			r.t.Errorf("%s is answered %v: %v", what, got, code)
		}
	}
}
