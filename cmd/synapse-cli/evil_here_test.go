//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/sim/record"
)

// This file tests hostile text that does not come from a scheduler: from an issuer, an audit log, a record, nodes
// of a deployment, file names, and processes of a cluster.

// evilFile writes a file. Its name is hostile too, unless it is a single word.
func evilFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// runEvil runs each command line and checks its complete output. Each must print something.
func runEvil(t *testing.T, address string, env map[string]string, lines ...[]string) {
	t.Helper()
	for _, line := range lines {
		unsteered(t, strings.Join(line, " "), cliWith(address, "", env, line...))
	}
}

// TestEvilAccounts checks that text in an audit log, or in a file in its place, cannot control the reader's
// terminal.
func TestEvilAccounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), evil)
	account, err := audit.Open(dir, time.Now, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	line := audit.Line{Who: evil, Pass: evil, From: evil, Call: evil, What: evil, Outcome: evil,
		Heads: []audit.Pin{{Of: "x" + evil, N: 7, Hash: evil}}}
	for _, call := range []string{"start", evil} {
		if line.Call = call; err == nil {
			_, err = account.Add(line)
		}
	}
	if err := errors.Join(err, account.Close()); err != nil {
		t.Fatal(err)
	}
	broken := func(text string) string { return filepath.Dir(evilFile(t, audit.File, text)) }
	unknown, err := json.Marshal(map[string]string{evil: evil})
	if err != nil {
		t.Fatal(err)
	}
	heads := evilFile(t, evil, "Audit head 9 "+strings.Repeat("0", 64)+"\n"+evil+"\n")
	runEvil(t, "", nil, []string{"audit", dir}, []string{"audit", dir, "-o", "json"}, []string{"audit", dir, "-o", "yaml"},
		[]string{"audit", "verify", dir}, []string{"audit", "verify", dir, dir}, []string{"audit", broken(evil + "\n")},
		[]string{"audit", "verify", broken(string(unknown) + "\n")}, []string{"audit", evil},
		[]string{"audit", "verify", dir, "--heads", heads},
		[]string{"audit", "verify", dir, "--heads", evilFile(t, evil, evil)})
}

// evilIssuer returns an issuer whose texts are all hostile, and that refuses every login.
func evilIssuer(t *testing.T) *httptest.Server {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"error": evil, "error_description": evil}
		switch {
		case r.URL.Path == "/device":
			answer = map[string]any{"device_code": evil, "user_code": evil, "verification_uri": evil,
				"verification_uri_complete": evil, "expires_in": 60, "interval": 1}
		case strings.HasPrefix(r.URL.Path, "/.well-known/"):
			answer = map[string]any{"issuer": server.URL, "device_authorization_endpoint": server.URL + "/device",
				"token_endpoint": server.URL + "/token", "revocation_endpoint": server.URL + "/revoke"}
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestEvilLogin checks that the texts of an issuer, of a scheduler at login, and of stored contexts cannot control
// the terminal.
func TestEvilLogin(t *testing.T) {
	pair, err := identity.NewRoot("lab", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root := &identity.Folder{Dir: filepath.Join(t.TempDir(), "root"), Roots: pair.Chain, Pair: pair}
	folder, err := root.Certify(identity.RoleScheduler, "s", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ann, err := folder.Certify(identity.RoleAdmin, "ann", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder.Dir, ann.Dir = filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), evil)
	if err := errors.Join(root.Create(), folder.Create(), ann.Create()); err != nil {
		t.Fatal(err)
	}
	entrance, err := authn.New(authn.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	address := evilTexts(t, evil, entrance.Credentials())
	issuer := evilIssuer(t)
	over := credential.WithRoot("lab", [32]byte{1}, issuedFor(time.Hour, -time.Second))
	env, _ := home(t, fmt.Sprintf("contexts:\n- {name: old, server: 'lab:9000', cluster: %s, user: ann, role: submitter, "+
		"token: %s, issuer: %q, client: synapse, refresh: r1}\n", quotedYAML(t, evil), over, issuer.URL))
	login := []string{"login", address, "--root", filepath.Join(folder.Dir, "ca.pem"), "--client-id", "synapse", "--oidc"}
	runEvil(t, "", env, append(login, issuer.URL), []string{"login", address, "--tls", ann.Dir}, []string{"contexts"},
		[]string{"contexts", "-o", "json"}, []string{"contexts", "-o", "yaml"}, []string{"whoami", "--retry", "0s"},
		[]string{"logout", "x" + evil}, []string{"login", address}, append(login, issuer.URL+"/"+evil), []string{"logout"},
		[]string{"login", address, "--token-file", evilFile(t, evil, evil)}, []string{"whoami", "--context", "old"},
		[]string{"whoami", "--context", evil}, []string{"logout", "old"},
		[]string{"login", address, "--tls", ann.Dir, "--name", "old"},
		[]string{"login", "127.0.0.1:" + evil, "--tls", ann.Dir, "--retry", "0s"})
	garbled := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(evil))
	}))
	defer garbled.Close()
	runEvil(t, "", env, append(login, garbled.URL))
}

// TestEvilRecords checks that the texts of a record, its limits, queues and nodes, and of the simulator cannot
// control the terminal.
func TestEvilRecords(t *testing.T) {
	quoted := `"` + strings.ReplaceAll(evil, `"`, `""`) + `"`
	jobs := func(more string) string {
		head := "job_id,submit_s,duration_s,gpus,tasks,user,queue,requested_walltime_s,real_wait_s\n"
		row := quoted + ",0,60,1,1," + quoted + "," + quoted + ",90,1\n"
		return evilFile(t, evil, head+strings.Repeat(row, 300)+more)
	}
	word := quotedYAML(t, evil)
	history := evilFile(t, evil, `{"items": [`+strings.Repeat(`{"submittedUnixMs": 1, "attempts": []}, `, 300)+
		`{"id": `+word+`}]}`)
	nodes := evilFile(t, evil, `{"items": [{"metadata": {"id": `+word+`}, "status": {"total": {"milliGPU": 0}}},
		{"metadata": {"place": [{"name": `+word+`}]}, "status": {"total": {"milliGPU": 8000}}}]}`)
	result, err := json.Marshal(record.Word{Result: &record.Result{Policy: evil, TraceHash: evil,
		Classes: []record.Class{{GPUs: evil}}, Queues: []record.Queue{{Queue: evil}}}})
	refusal, odd := json.Marshal(record.Word{Err: evil})
	if err := errors.Join(err, odd); err != nil {
		t.Fatal(err)
	}
	program := func(says string) {
		dir := filepath.Dir(evilFile(t, "says", says))
		text := "#!/bin/sh\ncat '" + dir + "/says' >&2\ncat '" + dir + "/says'\n"
		if err := os.WriteFile(filepath.Join(dir, "synapse-sim"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	good := jobs("")
	queues := evilFile(t, evil, "apiVersion: synapse/v1\nkind: Queues\nqueues: [{name: "+word+", "+word+": 1}]\n")
	some := evilFile(t, evil, "apiVersion: synapse/v1\nkind: Queues\nqueues: [{name: q}]\n")
	two := []string{"simulate", good, "--nodes", "4", "--policy", "synapse,synapse-fifo"}
	program(string(result) + "\n" + evil + "\n")
	replays := evilFile(t, evil, `{"kind": "Simulation", "runs": [{"policy": `+quotedYAML(t, evil)+`}]}`)
	runEvil(t, "", nil, two, append(two, "-o", "json"), append(two, "-o", "yaml"),
		append(two, "--report", evilFile(t, evil, "")),
		[]string{"simulate", good, "--print"}, []string{"simulate", jobs("1," + quoted + ",x,y\n"), "--print"},
		[]string{"simulate", evil, "--nodes", "4"},
		[]string{"simulate", evilFile(t, evil, evil+","+evil+"\n"), "--nodes", "4"},
		append(two, "--queues", queues), append(two, "--queues", some), append(two, "--queues", evil),
		append(two, "--limits", evilFile(t, evil, evil)), append(two, "--report", evil+"/"+evil),
		[]string{"simulate", good, "--cluster", nodes}, []string{"simulate", good, "--cluster", evil},
		[]string{"simulate", good, "--cluster", evilFile(t, evil, "machines,gpus\n"+quoted+","+quoted+"\n")},
		[]string{"simulate", history, "--nodes", "4"},
		[]string{"simulate", evilFile(t, evil, "JobID|Submit|Start|ElapsedRaw|AllocTRES|User\n"+
			strings.ReplaceAll(evil, "\n", "")+"|"+forged+"|x|y|"+"\u202e|\u202e\n"), "--nodes", "4"},
		[]string{"simulate", evilFile(t, evil, "; x\n"+strings.Repeat(evil+" ", 18)+"\n"), "--nodes", "4", "--format", "swf"},
		[]string{"simulate", "--synthetic", evil, "--nodes", "4"},
		[]string{"simulate", "--nodes", "4", evil, "--policy", evil},
		[]string{"simulate", "compare", replays, replays}, []string{"simulate", "compare", replays, good},
		[]string{"simulate", "compare", evil, evil})
	program(string(refusal) + "\n")
	runEvil(t, "", nil, two)
	program(evil)
	runEvil(t, "", nil, two)
}

// quotedYAML returns text as a quoted string of YAML and JSON.
func quotedYAML(t *testing.T, text string) string {
	t.Helper()
	word, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return messages.OneLine(string(word))
}

// TestEvilMachines checks that the texts of a node, of ssh and of the file of nodes cannot control the terminal.
func TestEvilMachines(t *testing.T) {
	f := startFake(t)
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		one := machine(name)
		fill(one.ProtoReflect(), evil, 4)
		one.Record.Id, one.Phase, one.Closed = name, "up", ""
		one.Record.Announcement.AgentVersion = strings.Split(evil, "\n")[0]
		f.nodes = append(f.nodes, one)
	}
	f.nodes[3].Closed = evil
	evilly := evilFile(t, "evil", evil)
	ssh := evilFile(t, "reach", "#!/bin/sh\nevil() { cat '"+evilly+"'; }\nfirst() { head -n 1 '"+evilly+"'; }\n"+`
case "$1" in
n1) evil >&2; exit 255;;
n2) cat >/dev/null; evil; exit 0;;
esac
if tar -tf - | grep -qx node.yaml; then
	if [ "$1" = n3 ]; then evil >&2; exit 1; fi
	printf 'version '; first
else
	printf 'arch '; first; printf 'packages '; first; printf 'version '; first
	printf '%s\n' systemd active enabled settings
	if [ "$1" = n5 ]; then evil; fi
fi
`)
	deploy := func(hosts string, more ...string) []string {
		return append([]string{"deploy", "--ssh", ssh, "--hosts", evilFile(t, evil, hosts), "--within", "1s"}, more...)
	}
	all := "nodes: {\"n[1-5]\": {ssh: \"{name}\", settings: {labels: " + quotedYAML(t, evil) + "}}}"
	named := quotedYAML(t, evil)
	runEvil(t, f.address, nil, deploy(all), deploy(all, "--dry-run"), deploy("nodes: {"+named+": {ssh: n1}}"),
		deploy("nodes: {n1: {ssh: "+named+"}}"), deploy("nodes: {n1: {"+named+": x}}"), deploy(evil), deploy("["+evil),
		deploy(named+": 1"), deploy("nodes: {n1: {settings: {"+named+": "+named+"}}}"), deploy(all, "--ssh", "./"+evil),
		deploy(all, "--package", evilFile(t, evil, "")), deploy(all, "--by", evil),
		deploy(all, "--package", evilFile(t, "synapse_"+strings.ReplaceAll(evil, "/", "")+"_amd64.deb", "")),
		[]string{"deploy", "--hosts", evil})
	f.nodes[2].Record.Announcement.Gpus = nil
	f.refusal = &messages.Outcome{Code: messages.Code_CODE_INVALID, Field: evil, Text: evil, Hint: evil}
	runEvil(t, f.address, nil, deploy(all))
}

// TestEvilPage checks that the texts of `web` about a record, files and a scheduler's refusal cannot control the
// terminal.
func TestEvilPage(t *testing.T) {
	fake := startFake(t)
	fake.refusal = &messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Field: evil, Text: evil, Hint: evil}
	unknown, begins := evilFile(t, evil, `{`+quotedYAML(t, evil)+`: 1}`+"\n"), evilFile(t, evil, "{}\n")
	runEvil(t, fake.address, nil, []string{"web", "--no-open"}, []string{"web", "--listen", evil},
		[]string{"web", "--listen", "127.0.0.1:" + evil},
		[]string{"web", "--replay", evil}, []string{"web", "--replay", unknown},
		[]string{"web", "--replay", begins}, []string{"web", "--replay", evilFile(t, evil, evil)},
		[]string{"web", "--record", evilFile(t, evil, "")}, []string{"web", "--out", evil},
		[]string{"web", "--record", filepath.Join(t.TempDir(), evil)})
	cli("", "web", "--listen", ":80").wants(t, exit.Misuse, "",
		"synapse-cli: --listen :80: other hosts could connect")
	// The test checks the printed link and the end of a record itself, because no command line prints them.
	for _, serves := range []bool{true, false} {
		var out, errs lines
		a := newApp(nil, &out, &errs, func(string) (string, bool) { return "", false })
		a.name = "synapse-cli"
		c, err := client.Dial(client.Config{Server: evilTexts(t, evil, nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if serves {
			err = a.web(ctx, c, &webFlags{listen: "127.0.0.1:0", quiet: true})
		} else {
			err = a.recordPage(ctx, c, filepath.Join(t.TempDir(), evil))
		}
		unsteered(t, "web", result{a.end(err), out.String(), errs.String()})
	}
}

// TestEvilProcesses checks that the output of a cluster's processes, and the name of its folder, cannot control the
// terminal.
func TestEvilProcesses(t *testing.T) {
	evilly := evilFile(t, "evil", evil+"\n\x1b[31m"+forged)
	dies := "#!/bin/sh\ncat '" + evilly + "'\ncat '" + evilly + "' >&2\nexit 3\n"
	programs := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("synapse-scheduler", dies)
	program("synapse-node", dies)
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	up := []string{"up", "--nodes", "1", "--data-dir", filepath.Join(t.TempDir(), evil)}
	runEvil(t, "", nil, up, append(up, "--clean")) // its remains cannot be ended
	program("synapse-node", strings.Replace(dies, "\n", "\nif [ \"$1\" = leftovers ]; then echo 0; exit; fi\n", 1))
	runEvil(t, "", nil, up, append(up, "--driver", evil), append(up, "--listen", evil), append(up, "--memory", evil),
		append(up, "--clean"), []string{"up", "--clean", "--data-dir", evil}, append(up, "--store", evil))
	scheduler := filepath.Join(programs, "synapse-scheduler")
	if err := errors.Join(os.Remove(scheduler), os.Symlink(self, scheduler)); err != nil {
		t.Fatal(err)
	}
	runEvil(t, "", nil, up)
}
