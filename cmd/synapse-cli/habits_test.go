package main

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// TestHabits checks that words and flags of kubectl which do not exist here are answered with the way that does.
func TestHabits(t *testing.T) {
	for line, want := range map[string]string{
		"get ns":                       "did you mean `synapse-cli get queues`?",
		"get all":                      "use `get jobs`, `get nodes` or `get queues`",
		"edit job x":                   "did you mean `synapse-cli update`?",
		"scale x":                      "a job keeps its size",
		"rollout restart x":            "synapse-cli requeue JOB",
		"api-resources":                "use `synapse-cli get jobs`",
		"taint node n1 a=b":            "synapse-cli cordon NODE",
		"drain n1 --ignore-daemonsets": "leave it out",
		"get jobs,racks":               "use jobs, nodes, queues",
		"logs --since-time=x x":        "use --since with a date",
		"wait --for=ready x":           "--for=condition=complete",
		"wait --for=condition=up x":    "--for=condition=complete",
		"wait --for=phase=runing x":    "did you mean",
		"get jobs -A":                  "there are no namespaces",
		"get jobs -n team":             "there are no namespaces",
		"get jobs --namespace=team":    "there are no namespaces",
		"get jobs --bogus":             "run `synapse-cli get jobs --help`",
	} {
		r := cli("127.0.0.1:1", strings.Fields(line)...)
		if r.code != exit.Misuse || !strings.Contains(r.err, "hint: ") || !strings.Contains(r.err, want) {
			t.Errorf("%s: code %d, %q", line, r.code, r.err)
		}
	}
}

// TestHabitsExist checks that each command that a hint names exists.
func TestHabitsExist(t *testing.T) {
	root := newApp(nil, nil, nil, nil).root()
	for word, way := range elsewhere {
		if found, _, err := root.Find(strings.Fields(way)); err != nil || found == root {
			t.Errorf("%s: the hint names %q, which does not exist", word, way)
		}
	}
}
