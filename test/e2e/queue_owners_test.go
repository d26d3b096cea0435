package e2e

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file tests who may use a queue, with real processes: users with certificates, and a user with a group of an
// issuer.

const ownedQueues = `apiVersion: synapse/v1
kind: Queues
default: open
queues:
- {name: open}
- {name: lab, owners: [bob, "group:ml"]}
- {name: leads, parent: lab, owners: [bob, "group:leads"]}
`

// TestOwnersOfAQueue checks that a user who is not an owner of a queue is rejected on every way. The list may change
// after jobs were accepted. They stay, and their owner can no longer change them.
func TestOwnersOfAQueue(t *testing.T) {
	i := newIssuer(t)
	oidc := i.believed()
	s := newSecured(t, "--oidc", oidc)
	folders := map[string]string{"admin": filepath.Join(s.keys, "admin")}
	for name, role := range map[string]string{"bob": "submitter", "zoe": "submitter", "oli": "operator"} {
		folders[name] = s.folder(role, name)
	}
	as := func(who string, args ...string) result { return s.as(folders[who], args...) }
	file, home := filepath.Join(t.TempDir(), "queues.yaml"), t.TempDir()
	apply := func(text string) result {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return as("admin", "apply", "-f", file)
	}
	ann := func(stdin string, args ...string) result { // a user of the issuer, of the group ml
		cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "SYNAPSE_CONTEXTS="+filepath.Join(home, "contexts"))
		cmd.Stdin = strings.NewReader(stdin)
		return ask(t, cmd)
	}
	to := func(queue string, more ...string) []string {
		args := append([]string{"submit", "-q", "--cpu", "1", "--image", "host", "--allow-infeasible", "--queue", queue},
			more...)
		return append(args, "--", "true")
	}
	apply(strings.Replace(ownedQueues, "[bob,", "[bob b,", 1)).
		wants(t, 2, "", `queues[1].owners[0]: "bob b" is not an owner`)
	apply(ownedQueues).wants(t, 0, "queues applied (revision 1)\n", "")

	const no = "zoe may not use queue lab: it is only for bob, group:ml"
	for _, args := range [][]string{
		to("lab"), to("lab", "--array", "0-9"),
		{"submit", "--cpu", "1", "--image", "host", "--queue", "lab", "--dry-run=server", "--", "true"},
	} {
		as("zoe", args...).wants(t, 5, "", no).wants(t, 5, "", "use one of zoe's queues: open")
	}
	as("zoe", "slurm", "sbatch", "-p", "lab", "--wrap", "true").wants(t, 1, "", no) // with the exit code of Slurm
	if code, text := s.submitsByHTTP(folders["zoe"], "lab"); code != 403 || !strings.Contains(text, no) {
		t.Errorf("by HTTP: %d, %s", code, text)
	}
	if code, text := s.submitsByHTTP(folders["bob"], "lab"); code != 200 {
		t.Errorf("by HTTP: %d, %s", code, text)
	}
	as("zoe", to("open")...).wants(t, 0, "", "")
	as("admin", to("leads")...).wants(t, 0, "", "")
	as("bob", to("leads")...).wants(t, 0, "", "")
	id := strings.TrimSpace(as("bob", to("lab", "--array", "0-9%1")...).wants(t, 0, "", "").out)

	ann(i.token("synapse", "ml", time.Hour), "login", s.address, "--root", filepath.Join(s.keys, "admin", "ca.pem"),
		"--token-file", "-").wants(t, 0, "", "Logged in to cluster e2e as ann (submitter)")
	ann("", "whoami").wants(t, 0, "in the groups ml\n", "")
	ann("", to("lab")...).wants(t, 0, "", "")
	ann("", to("leads")...).wants(t, 5, "", "ann may not use queue leads: it is only for bob, group:leads")

	as("zoe", "describe", "queue", "lab").wants(t, 0, "Owners:       bob, group:ml\n", "")
	as("zoe", "describe", "queue", "open").wants(t, 0, "Owners:       all users\n", "")
	as("zoe", "describe", "queue", "leads").
		wants(t, 0, "Owners:       bob, group:leads\n              must also be owners of lab: bob, group:ml\n", "")
	as("zoe", "get", "queues", "-o", "json").wants(t, 0, `"owners": [`, "").wants(t, 0, `"notAllowed": [
    "lab",
    "leads"
  ]`, "")
	marksQueues(t, as, ann)
	reply := as("zoe", "get", "queues", "-o", "yaml").wants(t, 0, "notAllowed: [lab, leads]\n", "").out
	// the information about zoe is not part of the description
	apply(reply).wants(t, 0, "queues unchanged (revision 1)\n", "")

	as("bob", "update", id, "--array-max-running", "2").wants(t, 0, "", "")
	apply(strings.Replace(ownedQueues, "[bob,", "[zoe,", 1)).wants(t, 0, "queues applied (revision 2)\n", "")
	s.scheduler.kill() // the next leader uses the same lists
	s.lead(s.address, "--oidc", oidc, "--tls", filepath.Join(s.keys, "scheduler"))
	as("bob", "update", id, "--array-max-running", "3").
		wants(t, 5, "", "bob may not use queue lab: it is only for zoe, group:ml").
		wants(t, 5, "", "the job continues unchanged")
	for _, scope := range []string{id, id + "[3]", id + "[3-5,9]"} {
		as("bob", "priority", scope, "5").wants(t, 5, "", "bob may not use queue lab")
	}
	as("bob", "slurm", "scontrol", "update", "JobId="+id+"_[3-5]", "Priority=5").
		wants(t, 1, "", "bob may not use queue lab")
	as("bob", to("lab")...).wants(t, 5, "", "use one of bob's queues: open")
	as("oli", "update", id, "--array-max-running", "4").wants(t, 0, "", "")
	as("zoe", to("lab")...).wants(t, 0, "", "")
	as("bob", "get", "jobs", "--me", "-q").wants(t, 0, id, "")
	as("bob", "cancel", id).wants(t, 0, "", "")
}

// marksQueues checks the last column of the queue list, which is present if one of the queues is closed to the caller.
func marksQueues(t *testing.T, as func(who string, args ...string) result, ann func(in string, args ...string) result) {
	t.Helper()
	marks := func(a result) string {
		var all []string
		for line := range strings.Lines(a.wants(t, 0, "QUEUE", "").out) {
			words := strings.Fields(line)
			all = append(all, words[0]+" "+words[len(words)-1])
		}
		return strings.Join(all, ", ")
	}
	for who, want := range map[string]string{
		"zoe": "QUEUE ALLOWED, open yes, lab no, leads no", "oli": "QUEUE ALLOWED, open yes, lab no, leads no",
		"bob": "QUEUE WAITING, ", "admin": "QUEUE WAITING, ",
	} {
		if got := marks(as(who, "get", "queues")); !strings.HasPrefix(got, want) {
			t.Errorf("user %s sees %s, want %s", who, got, want)
		}
	}
	if got := marks(ann("", "get", "queues")); got != "QUEUE ALLOWED, open yes, lab yes, leads no" {
		t.Errorf("ann sees %s", got)
	}
	as("zoe", "describe", "queue", "leads").wants(t, 0, "Allowed:      no: you are not in one of these lists\n", "")
}

// submitsByHTTP returns the answer to a submit to a queue over HTTP, with the keys in this folder.
func (s *secured) submitsByHTTP(folder, queue string) (status int, text string) {
	s.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, // the scheduler's name is no host name
	}}}
	defer client.CloseIdleConnections()
	body := `{"allow_infeasible":true,"spec":{"name":"plain","image":"host","queue":"` + queue + `","command":["true"],` +
		`"gang":{"replicas_min":1,"replicas_max":1},"each":{"milli_cpu":"100"}}}`
	answer, err := client.Post("https://"+s.address+"/v1/Submit", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var said strings.Builder
	if err := answer.Write(&said); err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, said.String()
}
