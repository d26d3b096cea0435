//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestCapacityPage checks that the commands of the page print what the page shows.
func TestCapacityPage(t *testing.T) {
	pace.Crowd(t)
	page, err := os.ReadFile("../../docs/operate/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	trace := record.DefaultSynthetic().Trace()
	for policy, machines := range map[string][]int{record.Synapse: {8, 10, 12, 16}, "easy": {12}, "sjf": {12}} {
		for _, n := range machines {
			jobs, err := trace.Take(record.Cut{Timescale: 1}, n*8)
			if err != nil {
				t.Fatal(err)
			}
			o := record.Order{Jobs: jobs, Cluster: record.NewCluster(record.InRacks(n, 0), 8), Policy: policy, Seed: 1,
				Oracle: true}
			result, err := replay.Run(o, replay.Watch{})
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := show.Replays(&b, show.Style{NoHeaders: true, Parsable: true}, []*record.Result{result}); err != nil {
				t.Fatal(err)
			}
			row := strings.Fields(strings.ReplaceAll(strings.Split(b.String(), "\n")[0], "|", " "))
			found := false
			for line := range strings.Lines(string(page)) {
				_, cells, ok := strings.Cut(line, policy+" ")
				cells, _, _ = strings.Cut(cells, "`")
				found = found || ok && strings.Join(strings.Fields(cells), " ") == strings.Join(row[1:], " ")
			}
			if !found {
				t.Errorf("on %d machines %s is not on the page as %v", n, policy, row)
			}
		}
	}
}

// TestSimulateRefuses checks that an invalid input is refused with the name of its flag or the number of its row.
func TestSimulateRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"simulate":          "record is missing",
		"simulate jobs.csv": "--nodes is missing",
		"simulate jobs.csv --nodes 4 --policy fiffo": `did you mean "fifo"?`,
		"simulate jobs.csv --nodes 4 --policy easy --queues q.yaml": "--queues: policy easy does not support " +
			"queues",
		"simulate jobs.csv --nodes 4 --preemption":                               "--preemption requires --checkpoint",
		"simulate jobs.csv --nodes 4 --policy sjf --preemption --checkpoint 10m": "--preemption: policy sjf does not preempt",
		"simulate jobs.csv --nodes 4 --checkpoint 10m":                           "--checkpoint requires --preemption",
		"simulate jobs.csv --nodes 4 --preemption --checkpoint often":            "--checkpoint: \"often\" is not a duration",
		"simulate jobs.csv --nodes 4 --placement here":                           "--placement here: unknown value",
		"simulate jobs.csv --nodes 4 --racks 5":                                  "--racks is out of range",
		"simulate jobs.csv --nodes 4 --jitter 1":                                 "--jitter is out of range",
		"simulate jobs.csv --nodes 4 --until soon":                               "--until: \"soon\" is not a duration",
		"simulate nosuch.csv --nodes 4":                                          "nosuch.csv: no such file or directory",
		"simulate simulate_test.go --nodes 4":                                    "column submit_s is missing",
		"simulate jobs.csv --nodes 4 --limits nosuch.csv":                        "jobs.csv: no such file or directory",
		"simulate main.go --nodes 4 --limits nosuch.csv":                         "nosuch.csv: no such file or directory",
		"simulate main.go --nodes 4 --limits app.go":                             "app.go: column job_id is missing",
		"simulate jobs.csv --nodes 4 --until -5m":                                "--until: \"-5m\" is not a duration",
		"simulate jobs.csv --nodes 4 --until 0":                                  "--until: \"0\" is not a duration",
		// With two errors, the same one is always reported.
		"simulate jobs.csv --nodes 4 --runs 0 --rows -1": "--rows is out of range",
		"simulate jobs.csv --nodes 4 --format sact":      `did you mean "sacct"?`,
		"simulate jobs.csv --nodes 4 --cluster nodes":    "--cluster and --nodes cannot be combined",
		"simulate --synthetic --cluster nosuch":          "nosuch: no such file or directory",
		"simulate --synthetic --cluster main.go":         "main.go: column nodes is missing",
		"simulate --synthetic job=5 --nodes 4":           `did you mean "jobs"?`,
		"simulate --synthetic jobs=few --nodes 4":        "\"jobs=few\" is not a whole number",
		"simulate --synthetic jobs=0 --nodes 4":          "jobs=0 is out of range",
		"simulate --synthetic --limits a --nodes 4":      "--synthetic cannot be combined",
		"simulate compare a.json":                        "simulate compare needs two files, got 1",
		"simulate compare a.json b.json":                 "a.json: no such file or directory",
		"simulate compare main.go app.go":                "main.go is not a replay in JSON format",
	} {
		cli("127.0.0.1:1", strings.Fields(line)...).wants(t, exit.Misuse, "", want)
	}
}

// TestSimulatePrints checks that a generated workload is printed as a record that reads as the same workload.
func TestSimulatePrints(t *testing.T) {
	drawn := cli("", "simulate", "--synthetic", "jobs=30,days=2,seed=5", "--print").out
	name := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(name, []byte(drawn), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := cli("", "simulate", name, "--print").out; again != drawn || strings.Count(drawn, "\n") != 31 {
		t.Errorf("it is\n%s\nand was\n%s", again, drawn)
	}
}

// TestCompare checks which policies are compared, the one that both replays have or the only one of each, and the
// change of each value.
func TestCompare(t *testing.T) {
	file := func(name string, results ...*record.Result) string {
		var b bytes.Buffer
		if err := show.Replays(&b, show.Style{Format: "json"}, results); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	run := func(policy string, wait float64) *record.Result {
		return &record.Result{Policy: policy, Waits: record.Waits{Jobs: 5, WaitAvg: wait}}
	}
	one, two := file("a.json", run("synapse", 100)), file("b.json", run("synapse", 70), run("synapse", 80), run("easy", 9))
	out := cli("", "simulate", "compare", one, two, "-o", "json").out
	var all struct {
		Metrics []struct {
			Policy, Metric string
			A, B           *show.Mean
			Change         *float64
		}
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Metrics) != 12 {
		t.Fatalf("%v: %s", err, out)
	}
	f := all.Metrics[2]
	if f.A.Mean != 100 || f.B.Mean != 75 || f.B.Least != 70 || math.Abs(f.B.Spread-math.Sqrt(50)) > 1e-9 ||
		*f.Change != -0.25 {
		t.Errorf("%+v", f)
	}
	if gangs := all.Metrics[6]; gangs.Metric != "wait_multi_avg" || gangs.A != nil || gangs.Change != nil {
		t.Errorf("%+v", gangs)
	}
	cli("", "simulate", "compare", one, two).wants(t, 0, "synapse  wait-avg          100  75 ± 7  -25.0%\n", "")
	cli("", "simulate", "compare", one, file("c.json", run("easy", 50))).wants(t, 0, "synapse → easy  wait-avg", "")
	cli("", "simulate", "compare", file("d.json", run("sjf", 1), run("fifo", 1)), one).wants(t, exit.Misuse,
		"", "no policy occurs in both replays")
}

// TestReplaysLook checks that several runs are printed with mean and spread, after the real waiting times.
func TestReplaysLook(t *testing.T) {
	real := record.Waits{Jobs: 5, WaitAvg: 40}
	var b strings.Builder
	results := []*record.Result{
		{Policy: "synapse", Waits: record.Waits{Jobs: 5, WaitAvg: 10}, Real: &real},
		{Policy: "synapse", Waits: record.Waits{Jobs: 5, WaitAvg: 20}},
	}
	if err := show.Replays(&b, show.Style{Parsable: true}, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"as it was|5|0|40|0|0|0|-|0|-|-|-|-\n", "synapse|5|0|15|", "± of 2 runs|||7|"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it has no %q:\n%s", want, b.String())
		}
	}
}
