//go:build world

package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// This file runs a cluster in which each part is of the last release or of this commit.

// version names the release of a part.
type version int

const (
	before version = iota // the last release
	now
)

func (v version) String() string { return [...]string{"the last release", "now"}[v] }

// upgraded names the processes that are upgraded together.
type upgraded []string

var (
	schedulers = upgraded{"scheduler"}
	agents     = upgraded{"n1", "n2"}
	desks      = upgraded{"synapse-cli"}
)

// releaseFile names the commit of the last release.
const releaseFile = "../../messages/published/release.txt"

// released returns the folder of the last release's programs, built when a test first needs them.
var released = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(releaseFile)
	if err != nil {
		return "", err
	}
	commit := lastLine(text)
	folder, err := shared("release")
	if err != nil {
		return "", err
	}
	build := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3" && cd "$3" && go build -trimpath -ldflags="-s -w" -o bin/ ./cmd/...`,
		"sh", "../..", commit, folder)
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return folder, nil
})

// lastLine returns the last line of a file, which has comments above.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// needRelease skips a test if the clone does not have the last release's commit.
func needRelease(t *testing.T) {
	t.Helper()
	able.Need(t, able.Program("git"), able.Program("tar"))
	text, err := os.ReadFile(releaseFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "-C", "../..", "cat-file", "-e", lastLine(text)+"^{commit}").Run(); err != nil {
		t.Skipf("this clone lacks the commit of the last release, %s (git fetch --unshallow gets it)", lastLine(text))
	}
}

// moving is that cluster. It uses TLS, with keys that the last release created.
type moving struct {
	t              *testing.T
	bin            [2]string // of each version
	folder         string    // of the test
	address, store string
	driver         string
	is             map[string]version // of each process, and of the client
	runs           map[string]*exec.Cmd
	starts         int

	gang  string   // it runs through everything
	names []string // of its tasks
	goOn  string   // its tasks end while this file exists
}

func newMoving(t *testing.T, store, driver string) *moving {
	t.Helper()
	needRelease(t)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	old, err := released()
	if err != nil {
		t.Fatalf("the last release is not built: %v", err)
	}
	folder := room(t)
	m := &moving{t: t, bin: [2]string{filepath.Join(old, "bin"), bin}, folder: folder,
		address: free(t), store: store, driver: driver, is: map[string]version{}, runs: map[string]*exec.Cmd{},
		goOn: filepath.Join(folder, "gate", "open")}
	if err := os.Mkdir(filepath.Dir(m.goOn), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.clear)
	m.run("init", m.path("keys"), "--cluster", "moving")
	token := m.run("token", "create", "--by", m.path("keys/scheduler"), "--uses", "2")
	able.WriteFile(t, m.path("token"), token, 0o600)
	for _, name := range slices.Concat(schedulers, agents) {
		m.start(name)
	}
	return m
}

func (m *moving) path(name string) string { return filepath.Join(m.folder, name) }

// becomes ends a process and starts the other version of it.
func (m *moving) becomes(name string, to version) {
	m.t.Helper()
	running := m.runs[name] != nil // a client only uses another program
	if running {
		m.stop(name)
	}
	if m.is[name] = to; name == schedulers[0] && to == before {
		m.refuses()
		m.is[name] = now
	}
	if running {
		m.start(name)
	}
}

// start starts a process in its present version, and waits until it is ready.
func (m *moving) start(name string) {
	m.t.Helper()
	m.starts++
	program, arguments := "synapse-node", []string{"--join", m.address, "--data-dir", m.path(name), "--id", name,
		"--topology", "zone=a,rack=r1", "--gpus", "8", "--cpus", "64", "--memory", "512Gi", "--address", "127.0.0.1",
		"--driver", m.driver, "--tls", m.path("keys/" + name), "--token", m.path("token")}
	there := "Success! Master says: Welcome to Synapse"
	if name == schedulers[0] {
		program, there = "synapse-scheduler", "Synapse Master running"
		arguments = []string{"--listen", m.address, "--data-dir", m.path(name), "--levels", "zone,rack",
			"--tls", m.path("keys/scheduler")}
		if m.store != "" {
			arguments = append(arguments, "--store", m.store)
		}
		if m.is[name] == now { // the last release does not know such rules, and would reject them
			arguments = append(arguments, "--config", m.rules())
		}
	}
	log, err := os.Create(m.path(fmt.Sprintf("%03d-%s-%d.log", m.starts, name, m.is[name])))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(filepath.Join(m.bin[m.is[name]], program), arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.runs[name] = command
	m.until(fmt.Sprintf("%s of %s says %q", name, m.is[name], there), func() bool {
		text, _ := os.ReadFile(log.Name())
		return strings.Contains(string(text), there)
	})
}

// stop ends a process as an upgrade does.
func (m *moving) stop(name string) {
	m.t.Helper()
	command := m.runs[name]
	delete(m.runs, name)
	_ = command.Process.Signal(syscall.SIGTERM)
	if err := command.Wait(); err != nil {
		m.t.Errorf("%s of %s ended with %v", name, m.is[name], err)
	}
}

// rules writes the newer scheduler's settings, with a program that records each finished job of the queue night.
func (m *moving) rules() string {
	m.t.Helper()
	program := m.path("tell")
	able.WriteFile(m.t, program, "#!/bin/sh\necho \"$SYNAPSE_NOTIFICATION_ID\" >>"+m.path("told")+"\n", 0o755)
	file := m.path("scheduler.yaml")
	able.WriteFile(m.t, file, "notify:\n  night:\n    on: job-finished\n    queues: [night]\n    command: ["+program+"]\n",
		0o600)
	return file
}

// told returns how often a job's end was notified.
func (m *moving) told(id string) int {
	text, _ := os.ReadFile(m.path("told"))
	return strings.Count(string(text), "job-finished/"+id+"\n")
}

// refuses checks that the last release does not open the newer scheduler's data, states the reason, and changes
// nothing.
func (m *moving) refuses() {
	m.t.Helper()
	arguments := []string{"--listen", free(m.t), "--data-dir", m.path("scheduler"), "--levels", "zone,rack",
		"--tls", m.path("keys/scheduler")}
	if m.store != "" {
		arguments = append(arguments, "--store", m.store)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, filepath.Join(m.bin[before], "synapse-scheduler"), arguments...).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "a newer synapse-scheduler wrote") {
		m.t.Fatalf("the last release's scheduler ended with %v:\n%s", err, text)
	}
}

// run runs the command line of the present version.
func (m *moving) run(words ...string) string {
	m.t.Helper()
	command := exec.CommandContext(m.t.Context(), filepath.Join(m.bin[m.is[desks[0]]], "synapse-cli"), words...)
	command.Env = append(os.Environ(), "SYNAPSE_SERVER="+m.address, "SYNAPSE_TLS="+m.path("keys/admin"),
		"SYNAPSE_RETRY=1m", "SYNAPSE_CONFIG=")
	var said, wrong bytes.Buffer
	command.Stdout, command.Stderr = &said, &wrong
	if err := command.Run(); err != nil {
		m.t.Fatalf("%s of %s: %v\n%s%s", words, m.is[desks[0]], err, &said, &wrong)
	}
	return said.String()
}

// submit submits a job of tasks of one CPU, and returns its ID.
func (m *moving) submit(words ...string) string {
	m.t.Helper()
	all := append([]string{"submit", "-q", "--cpu", "1", "--mem", "64Mi", "--image", "host"}, words...)
	return strings.TrimSpace(m.run(all...))
}

// state holds the fields of a job that both versions print.
type state struct {
	Phase    string
	Runs     int // of the last release
	Attempts int `json:"attemptCount"`
	Elements struct{ Waiting int }
}

func (m *moving) look(id string) state {
	m.t.Helper()
	var job struct{ Status state }
	if text := m.run("get", "job", id, "-o", "json"); json.Unmarshal([]byte(text), &job) != nil {
		m.t.Fatalf("job %s is %s", id, text)
	}
	return job.Status
}

func (m *moving) until(what string, so func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("timeout: %s did not happen", what)
		}
	}
}

// clear ends everything that is left.
func (m *moving) clear() {
	for name, command := range m.runs { //order: all end
		_ = command.Process.Kill()
		_ = command.Wait()
		delete(m.runs, name)
	}
	logs, _ := filepath.Glob(m.path("*.log"))
	for _, log := range logs {
		if text, err := os.ReadFile(log); err == nil && m.t.Failed() {
			m.t.Logf("%s:\n%s", filepath.Base(log), text[max(0, len(text)-1500):])
		}
	}
	kills(m.folder + "/") // tasks outlive their agents
	if m.driver != "process" {
		if err := able.Sweep(m.path("none"), carapace.Cgroups{}); err != nil {
			m.t.Error(err)
		}
	}
}
