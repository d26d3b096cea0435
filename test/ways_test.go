// This file holds the rule that the web UI understands each suggestion of `explain` that changes the job file.
package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yi-json/synapse/topology"
)

const (
	changesFile = "server/web/page/change.js"
	limitsFile  = "actors/mirror/starts.go"
	factsFile   = "actors/mirror/explanation.go"
	// limitWay and patienceWay are the suggestions that the mirror adds to those of the topology.
	limitWay    = "with --time-limit "
	patienceWay = "without topology patience"
)

var (
	// wayPattern matches one entry of the list of the page.
	wayPattern = regexp.MustCompile(`(?m)^  \[/(\^.*\$)/, `)
	// nextChange splits a suggestion of two changes, as the page does.
	nextChange = regexp.MustCompile(` and topology `)
	// onlySaid matches a suggestion that the page shows without a change: fewer GPUs for a gang that has no number
	// of tasks.
	onlySaid = regexp.MustCompile(`^with \d+ GPUs$`)
)

// suggested returns the suggestions for gangs that do not fit because of one property each.
func suggested() (all []string) {
	const gpus = 8000
	f := topology.NewTree([]string{"zone", "rack"})
	for id, place := range map[topology.NodeID][]string{
		"n1": {"a", "r1"}, "n2": {"a", "r1"}, "n3": {"a", "r2"}, "n4": {"b", "r3"},
	} {
		m := topology.Machine{ID: id, Place: place, GPUType: "h100",
			Total: topology.Resources{MilliCPU: 64_000, MemoryBytes: 1 << 36, MilliGPU: gpus}}
		f.Join(m, m.Idle())
	}
	half, full := topology.Resources{MilliGPU: gpus / 2}, topology.Resources{MilliGPU: gpus}
	f.Take(topology.Placement{Slots: []topology.Slot{{Node: "n1", Amount: half}, {Node: "n2", Amount: half}}})
	for _, g := range []topology.Gang{
		{Replicas: 8, Each: half},
		{Total: topology.Resources{MilliGPU: 3 * gpus}, Split: topology.SplitWhole},
		{Replicas: 4, Each: half, Required: "rack"},
		{Replicas: 5, Each: half, Required: "zone"},
		{Replicas: 8, Each: half, Required: "rack"},
		{Replicas: 1, Each: full, GPUType: "b200"},
		{Replicas: 1, Each: full, Selector: []topology.Label{{Key: "pool", Value: "a"}}},
		{Replicas: 5, Each: half, Exclude: []topology.NodeID{"n4"}},
		{Replicas: 1, Each: full, Only: []topology.NodeID{"n1"}},
	} {
		for _, r := range topology.Explain(f, g, nil).Relaxations {
			all = append(all, r.Text)
		}
	}
	return all
}

// TestSuggestionsOfThePage checks that the page understands each suggestion, and that each suggestion it understands
// occurs.
func TestSuggestionsOfThePage(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for file, way := range map[string]string{limitsFile: limitWay, factsFile: patienceWay} {
		if !strings.Contains(read(file), `"`+way+`"`) {
			t.Errorf("%s does not suggest %q", file, way)
		}
	}
	used := map[string]bool{}
	var ways []*regexp.Regexp
	for _, m := range wayPattern.FindAllStringSubmatch(read(changesFile), -1) {
		ways = append(ways, regexp.MustCompile(m[1]))
	}
	for _, text := range append(suggested(), limitWay+"29m", patienceWay) {
		for i, part := range nextChange.Split(text, -1) {
			if i > 0 {
				part = "with topology " + part
			}
			known := false
			for _, way := range ways {
				if way.MatchString(part) {
					known, used[way.String()] = true, true
					break
				}
			}
			if !known && !onlySaid.MatchString(part) {
				t.Errorf("%s does not support %q of %q", changesFile, part, text)
			}
		}
	}
	for _, way := range ways {
		if !used[way.String()] {
			t.Errorf("nothing suggests %s of %s", way, changesFile)
		}
	}
}
