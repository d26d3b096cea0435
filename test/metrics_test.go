package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/server/metrics/leading"
	"github.com/yi-json/synapse/server/metrics/machine"
)

// This file checks docs/reference/metrics.md and the files in deploy/ for Prometheus and Grafana. The page lists the
// metrics that the code registers, and each query names existing series, labels and values.

const metricsPage = "docs/reference/metrics.md"

// metricTables lists the metric families by the program that exports them.
var metricTables = []struct {
	title, words string
	source       metrics.Source
}{
	{"Cluster", "The leader exports these metrics; a standby exports only the first three.", &leading.Source{}},
	{"Node", "Each agent with `--metrics` or `--metrics-file` exports these metrics for its node.", machine.Source{}},
	{"Processes", "Schedulers and agents export the metrics that apply to them, in addition to `go_*` and `process_*`.",
		metrics.Process{}},
}

// TestMetricsPage checks that the page consists of its introduction and the registered metrics.
func TestMetricsPage(t *testing.T) {
	introduction, err := os.ReadFile("testdata/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.Write(introduction)
	for _, table := range metricTables {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n",
			table.title, table.words)
		for _, f := range table.source.Families() {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, strings.Join(f.Labels, ", "), f.Help)
		}
	}
	path := filepath.Join(root, metricsPage)
	if *rewrite {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(path); err != nil || string(there) != page.String() {
		t.Errorf("%s differs from the metrics (%v): run go test ./test -run MetricsPage -rewrite", metricsPage, err)
	}
}

// TestMetricNames checks that names follow the conventions of Prometheus.
func TestMetricNames(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range metricTables {
		for _, f := range table.source.Families() {
			counts := strings.HasSuffix(f.Name, "_total")
			if seen[f.Name] || !strings.HasPrefix(f.Name, "synapse_") || counts != (f.Kind == metrics.Counter) {
				t.Errorf("%s %s: a name must be unique and begin with synapse_, and a counter must end in _total", f.Kind, f.Name)
			}
			if f.Kind == metrics.Histogram && !strings.HasSuffix(f.Name, "_seconds") {
				t.Errorf("%s: the unit must be the last part of the name", f.Name)
			}
			seen[f.Name] = true
		}
	}
}

var (
	aSeries   = regexp.MustCompile(`\b(synapse_[a-z_]+)(?:\{([^}]*)\})?`)
	aSelector = regexp.MustCompile(`([a-z]+)(=~|!=|!~|=)"([^"]*)"`)
)

// labelValues lists the possible values of some labels, for all series.
var labelValues = map[string][]string{
	"reason": append(waitWords(), seriesWords("synapse_nodes_unavailable", mirror.OutageWords[:])...),
	"state":  seriesWords("synapse_gpus", mirror.StockWords[:]),
	"age":    {"1m", "10m", "1h", "6h", "24h", "older"},
	"side":   {"late", "early"},
	"phase":  slices.Concat(messages.Phases, mirror.MachinePhases, []string{"committing", "preparing"}),
}

// seriesWords returns the values of a label as the metric shows them.
func seriesWords(family string, words []string) (shown []string) {
	for _, word := range words {
		shown = append(shown, renamed.SeriesWord(family, word))
	}
	return shown
}

// wrongIn returns the errors in the series that an expression names.
func wrongIn(expression string, all map[string]*metrics.Family) (wrong []string) {
	for _, found := range aSeries.FindAllStringSubmatch(expression, -1) {
		name := found[1]
		f := all[name]
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			if of := all[strings.TrimSuffix(name, part)]; f == nil && of != nil && of.Kind == metrics.Histogram {
				f = of
			}
		}
		if f == nil {
			wrong = append(wrong, "there is no "+name)
			continue
		}
		for _, s := range aSelector.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(f.Labels, s[1]) {
				wrong = append(wrong, name+" has no label "+s[1])
			}
			for _, value := range strings.Split(s[3], "|") {
				if values := labelValues[s[1]]; values != nil && !slices.Contains(values, value) {
					wrong = append(wrong, fmt.Sprintf("%s is never %q", s[1], value))
				}
			}
		}
	}
	return wrong
}

func families() map[string]*metrics.Family {
	all := map[string]*metrics.Family{}
	for _, table := range metricTables {
		for _, f := range table.source.Families() {
			all[f.Name] = f
		}
	}
	return all
}

// TestQueries checks that each query of the dashboard and of the alerts names existing series. The integration tests
// run them in Prometheus.
func TestQueries(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Description string }
			}
		}
	}
	read := func(path string, into any, decode func([]byte, any) error) {
		text, err := os.ReadFile(filepath.Join(root, "deploy", path))
		if err == nil {
			err = decode(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	read("grafana/synapse.json", &board, json.Unmarshal)
	read("prometheus/synapse-rules.yaml", &rules, yaml.Unmarshal)
	all, queries := families(), 0
	look := func(where, expression string) {
		queries++
		for _, wrong := range wrongIn(expression, all) {
			t.Errorf("%s: %s", where, wrong)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			look(p.Title, target.Expr)
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			look(r.Alert, r.Expr)
			if r.Annotations.Summary == "" || r.Annotations.Description == "" {
				t.Errorf("%s does not describe the metric and its use", r.Alert)
			}
		}
	}
	if queries < 40 {
		t.Errorf("only %d queries were found", queries)
	}
	for expression, want := range map[string]int{
		"synapse_leader": 0, "synapse_leaders": 1, "synapse_leader_bucket": 1, `rate(synapse_pass_seconds_bucket[5m])`: 0,
		`synapse_gpus{state="used"}`: 0, `synapse_gpus{state="usedd"}`: 1, `synapse_gpus{phase="up"}`: 1,
	} {
		if got := wrongIn(expression, all); len(got) != want {
			t.Errorf("%s: %v, want %d", expression, got, want)
		}
	}
}

// waitWords returns the codes of the reasons for which jobs wait.
func waitWords() (all []string) {
	for _, r := range messages.WaitReasons[messages.WaitNone+1:] {
		all = append(all, r.Word)
	}
	return all
}
