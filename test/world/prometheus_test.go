//go:build world

package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests a cluster's metrics, and the files in deploy/, with Prometheus itself.

// TestPrometheus checks that promtool accepts the metrics, the rules and the configuration, that Prometheus scrapes a
// cluster, and that every query of the dashboard returns data.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("prometheus"), able.Program("promtool"))
	bin, folder := made(t)
	scheduler, node := busyCluster(t, bin, folder)
	figures := fetch(t, "http://"+scheduler+"/metrics")
	accepts(t, figures, "check", "metrics")
	accepts(t, fetch(t, "http://"+node+"/metrics"), "check", "metrics")
	accepts(t, "", "check", "rules", "../../deploy/prometheus/synapse-rules.yaml")
	accepts(t, "", "check", "config", "--syntax-only", "../../deploy/prometheus/prometheus.yaml")

	at := prometheus(t, folder, scheduler, node)
	text, err := os.ReadFile("../../deploy/grafana/synapse.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			awaitData(t, at, p.Title, target.Expr)
		}
	}
	if queries < 30 {
		t.Errorf("only %d queries", queries)
	}
}

// accepts runs promtool, which must find no error.
func accepts(t *testing.T, input string, arguments ...string) {
	t.Helper()
	tool := exec.Command("promtool", arguments...)
	tool.Stdin = strings.NewReader(input)
	if text, err := tool.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v:\n%s", arguments, err, text)
	}
}

// fetch reads the content of an address once it is available.
func fetch(t *testing.T, at string) string {
	t.Helper()
	var why error
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		got, err := http.Get(at)
		if err != nil {
			why = err
			continue
		}
		text, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err == nil && got.StatusCode == http.StatusOK {
			return string(text)
		}
		why = errors.Join(err, errors.New(got.Status))
	}
	t.Fatalf("%s: %v", at, why)
	return ""
}

// busyCluster starts a scheduler that looks ahead and one node, with a running job, a job with a planned start, and
// queues. It returns the addresses of their metrics.
func busyCluster(t *testing.T, bin, folder string) (scheduler, node string) {
	t.Helper()
	scheduler, node = free(t), free(t)
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	starts(t, filepath.Join(bin, "synapse-scheduler"), "--listen", scheduler, "--store", "memory",
		"--config", write("scheduler.yaml", "policy:\n  order: expected\n"))
	fetch(t, "http://"+scheduler+"/readyz")
	starts(t, filepath.Join(bin, "synapse-node"), "--join", scheduler, "--data-dir", filepath.Join(folder, "node"),
		"--driver", "process", "--gpus", "4", "--metrics", node)
	queues := write("queues.yaml", "apiVersion: synapse/v1\nkind: Queues\ndefault: research\n"+
		"queues:\n- {name: research, quota: {gpu: 2}, limit: {gpu: 4}}\n")
	ask := func(words ...string) string {
		cli := exec.Command(filepath.Join(bin, "synapse-cli"), words...)
		cli.Env = append(os.Environ(), "SYNAPSE_SERVER="+scheduler)
		text, err := cli.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", words, err, text)
		}
		return string(text)
	}
	for _, words := range [][]string{
		{"apply", "-f", queues},
		{"submit", "--gpu", "4", "--cpu", "1", "--mem", "64Mi", "--time-limit", "1h", "--allow-infeasible",
			"--image", "host", "--", "sleep", "600"},
		{"submit", "--gpu", "4", "--cpu", "1", "--mem", "64Mi", "--time-limit", "1h", "--allow-infeasible",
			"--image", "host", "--", "sleep", "600"},
	} {
		ask(words...)
	}
	t.Cleanup(func() { // before the agent ends, because its tasks would continue
		for _, job := range strings.Fields(ask("get", "jobs", "-o", "name")) {
			ask("cancel", strings.TrimPrefix(job, "job/"))
		}
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
			if strings.Contains(fetch(t, "http://"+node+"/metrics"), "synapse_node_tasks 0\n") {
				return
			}
		}
		t.Error("tasks continue after the test")
	})
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if strings.Contains(fetch(t, "http://"+node+"/metrics"), "synapse_node_tasks 1\n") {
			return scheduler, node
		}
		if time.Now().After(limit) {
			t.Fatal("no job runs")
		}
	}
}

// prometheus starts it, and waits until it has scraped both.
func prometheus(t *testing.T, folder, scheduler, node string) string {
	t.Helper()
	at := free(t)
	config := filepath.Join(folder, "prometheus.yaml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n"+
		"- {job_name: synapse, static_configs: [{targets: ['%s']}]}\n"+
		"- {job_name: synapse-node, static_configs: [{targets: ['%s']}]}\n", scheduler, node)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	starts(t, "prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(folder, "tsdb"),
		"--web.listen-address", at, "--log.level", "warn")
	fetch(t, "http://"+at+"/-/ready")
	awaitData(t, at, "both are up", "sum(up) == 2")
	return at
}

// awaitData queries until there is an answer, because a rate needs two scrapes.
func awaitData(t *testing.T, at, what, expression string) {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(200 * time.Millisecond) {
		got, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expression))
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(got.Body).Decode(&answer)
		got.Body.Close()
		if err != nil || answer.Status == "error" {
			t.Errorf("%s: %s: %v %s", what, expression, err, answer.Error)
			return
		}
		if len(answer.Data.Result) > 0 {
			return
		}
	}
	t.Errorf("%s: %s returns nothing", what, expression)
}

// free returns an unused address on loopback.
func free(t *testing.T) string {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	return at.Addr().String()
}

// starts starts a program that ends with the test.
func starts(t *testing.T, program string, arguments ...string) {
	t.Helper()
	said := &strings.Builder{}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = said, said
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		err := command.Wait()
		if t.Failed() {
			t.Logf("%s ended with %v and printed:\n%s", filepath.Base(program), err, said)
		}
	})
}
