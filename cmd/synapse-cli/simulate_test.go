package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
)

// capacityRecord is what the awk program of docs/capacity.md writes.
func capacityRecord() string {
	var b strings.Builder
	b.WriteString("job_id,submit_s,duration_s,gpus\n")
	x, at := int64(7), int64(0)
	draw := func() int64 { x = x * 16807 % 2147483647; return x }
	for i := 1; i <= 3000; i++ {
		at += draw() % 240
		gpus := 16 * (1 + draw()%4)
		if x%20 != 0 {
			gpus = 1 + x%8
		}
		took := 60 + draw()%100*(x%90)
		fmt.Fprintf(&b, "%d,%d,%d,%d\n", i, at, took, gpus)
	}
	return b.String()
}

// TestCapacityPage: what the page says was printed is printed.
func TestCapacityPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := record.ReadCSV(strings.NewReader(capacityRecord()), nil)
	if err != nil {
		t.Fatal(err)
	}
	for policy, machines := range map[string][]int{record.Synapse: {12, 14, 16, 20}, "easy": {16}, "sjf": {16}} {
		for _, n := range machines {
			jobs, err := trace.Take(record.Cut{Timescale: 1}, n*8)
			if err != nil {
				t.Fatal(err)
			}
			o := record.Order{Jobs: jobs, Racks: racksOf(n, 0), GPUs: 8, Policy: policy, Seed: 1, Oracle: true}
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

// TestSimulateRefuses: what cannot be replayed is refused by its flag, or by its row.
func TestSimulateRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"simulate":          "no record is named",
		"simulate jobs.csv": "--nodes: say how many machines",
		"simulate jobs.csv --nodes 4 --policy fiffo":      `did you mean "fifo"?`,
		"simulate jobs.csv --nodes 4 --placement here":    "--placement here is not known",
		"simulate jobs.csv --nodes 4 --racks 5":           "--racks is out of range",
		"simulate jobs.csv --nodes 4 --shake 1":           "--shake is out of range",
		"simulate jobs.csv --nodes 4 --until soon":        "--until: \"soon\" is no time",
		"simulate nosuch.csv --nodes 4":                   "nosuch.csv: no such file or directory",
		"simulate simulate_test.go --nodes 4":             "it has no column submit_s",
		"simulate jobs.csv --nodes 4 --limits nosuch.csv": "jobs.csv: no such file or directory",
	} {
		cli("127.0.0.1:1", strings.Fields(line)...).wants(t, exitUsage, "", want)
	}
}
