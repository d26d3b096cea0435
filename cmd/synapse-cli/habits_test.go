package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// TestHabits checks that words and flags of kubectl which do not exist here are answered with the way that does.
func TestHabits(t *testing.T) {
	for line, want := range map[string]string{
		"get ns":                              "did you mean `synapse-cli get queues`?",
		"get all":                             "use `get jobs`, `get nodes` or `get queues`",
		"edit job x":                          "did you mean `synapse-cli update`?",
		"scale x":                             "a job keeps its size",
		"rollout restart x":                   "synapse-cli requeue JOB",
		"api-resources":                       "use `synapse-cli get jobs`",
		"taint node n1 a=b":                   "synapse-cli cordon NODE",
		"drain n1 --ignore-daemonsets":        "leave it out",
		"get jobs,racks":                      "use jobs, nodes, queues",
		"logs --since-time=x x":               "use --since with a date",
		"wait --for=ready x":                  "--for=condition=complete",
		"wait --for=condition=up x":           "--for=condition=complete",
		"wait --for=phase=runing x":           "did you mean",
		"get jobs -A":                         "there are no namespaces",
		"get jobs -n team":                    "there are no namespaces",
		"get jobs --namespace=team":           "there are no namespaces",
		"get pod":                             "did you mean `synapse-cli get jobs`?",
		"get pods -w":                         "did you mean `synapse-cli get jobs`?",
		"get deploy":                          "did you mean `synapse-cli get jobs`?",
		"get quota":                           "did you mean `synapse-cli get queues`?",
		"get svc":                             "port-forward JOB PORT",
		"get pvc -o yaml":                     "submit --mount",
		"describe pod x":                      "did you mean `synapse-cli describe job`?",
		"top pods":                            "did you mean `synapse-cli top jobs`?",
		"top pods --containers":               "did you mean `synapse-cli top jobs`?",
		"get jobs --field-selector=status=x":  "--phase",
		"get nodes --show-labels":             "use -o wide",
		"logs x -c main":                      "a task has one container",
		"logs x --all-containers":             "a task has one container",
		"exec x -c main -- true":              "a task has one container",
		"diff -f x":                           "apply --dry-run=server",
		"proxy":                               "did you mean `synapse-cli port-forward`?",
		"set image x":                         "synapse-cli update JOB",
		"delete jobs --all":                   "get jobs --me --live -q",
		"get events -w":                       "use --follow",
		"get events --sort-by=.lastTimestamp": "in the order of time",
		"config view":                         "config get-contexts",
		"apply -k .":                          "use -f",
		"get jobs --bogus":                    "run `synapse-cli get jobs --help`",
	} {
		r := cli("127.0.0.1:1", strings.Fields(line)...)
		if r.code != exit.Misuse || !strings.Contains(r.err, "hint: ") || !strings.Contains(r.err, want) {
			t.Errorf("%s: code %d, %q", line, r.code, r.err)
		}
	}
}

// TestHabitsExist checks that each command that a hint names exists, and that each flag with a hint does not.
func TestHabitsExist(t *testing.T) {
	root := newApp(nil, nil, nil, nil).root()
	for word, way := range elsewhere {
		if found, _, err := root.Find(strings.Fields(way)); err != nil || found == root {
			t.Errorf("%s: the hint names %q, which does not exist", word, way)
		}
	}
	all := map[string][]*cobra.Command{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		all[c.Name()] = append(all[c.Name()], c)
		for _, below := range c.Commands() {
			add(below)
		}
	}
	add(root)
	for key := range flagHabits { //order: each is independent
		command, flag, _ := strings.Cut(key, " ")
		for _, c := range all[command] {
			name := strings.TrimLeft(flag, "-")
			if c.Flags().Lookup(name) != nil || len(name) == 1 && c.Flags().ShorthandLookup(name) != nil {
				t.Errorf("%s has the flag %s, so its hint is never shown", c.CommandPath(), flag)
			}
		}
		if len(all[command]) == 0 {
			t.Errorf("%s: no such command", key)
		}
	}
}
