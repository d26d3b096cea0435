//go:build world

package world

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests upgrades from the last release and back, with the programs of both, while a gang runs.

// orders lists all orders in which a cluster's parts can be upgraded and downgraded.
var orders = [][]upgraded{
	{schedulers, agents, desks}, {schedulers, desks, agents}, {agents, schedulers, desks},
	{agents, desks, schedulers}, {desks, schedulers, agents}, {desks, agents, schedulers},
}

// TestUpgradeAndBack upgrades scheduler, nodes and command line from the last release in each order, and downgrades
// nodes and command line in each. The last release's scheduler must reject the newer data, because it would run waiting
// jobs as nobody. A gang that the last release started must run through all of it, and small jobs must succeed after
// each step.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	newMoving(t, "", "process").upAndDown(orders)
}

// TestUpgradeAndBackInContainers does the same with tasks in containers and a database that schedulers share, in one
// order.
func TestUpgradeAndBackInContainers(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Containers)
	newMoving(t, pgtest.Start(t).Database(t), "carapace").upAndDown(orders[:1])
}

func (m *moving) upAndDown(orders [][]upgraded) {
	m.begins()
	var all []*wrote
	for round, order := range orders {
		m.moves(order, now)
		m.has(all)
		all = append(all, m.writes(round))
		m.has(all)
		m.moves(order, before)
		m.shows(all)
	}
	m.moves(orders[0], now)
	m.has(all)
	m.ends(all)
}

// moves changes the version of the parts, one after the other.
func (m *moving) moves(order []upgraded, to version) {
	m.t.Helper()
	m.t.Logf("%v go to %s", order, to)
	for _, p := range order {
		for _, name := range p {
			m.becomes(name, to)
			m.goesOn(fmt.Sprintf("with %s of %s", name, to))
		}
	}
}

// begins starts the gang with the last release.
func (m *moving) begins() {
	m.t.Helper()
	words := []string{"--name", "gang", "-N", "2", "--gpu", "4"}
	if m.driver != "process" { // its tasks see the folder unchanged
		words = append(words, "--mount", fmt.Sprintf("%[1]s:%[1]s:ro", filepath.Dir(m.goOn)))
	}
	m.gang = m.submit(append(words, "--", "sh", "-c", fmt.Sprintf(
		"echo began as $(cat /proc/sys/kernel/random/uuid); while [ ! -e %s ]; do sleep 0.2; done", m.goOn))...)
	m.until("both tasks of the gang have begun", func() bool {
		m.names = m.began()
		return len(m.names) == 2
	})
}

var begun = regexp.MustCompile(`began as \S+`)

// began returns the names that the gang's tasks have chosen. A restarted task adds another name.
func (m *moving) began() []string {
	m.t.Helper()
	names := begun.FindAllString(m.run("logs", m.gang), -1)
	slices.Sort(names)
	return names
}

// goesOn checks that the gang runs with its original tasks in the same attempt, and that a new job succeeds.
func (m *moving) goesOn(when string) {
	m.t.Helper()
	m.run("wait", m.submit("--name", "small", "--", "true"))
	m.until("the gang is known to run "+when, func() bool { return m.look(m.gang).Phase == "running" })
	if got := m.look(m.gang); max(got.Runs, got.Attempts) != 1 {
		m.t.Fatalf("%s the gang has started %d times", when, max(got.Runs, got.Attempts))
	}
	if names := m.began(); !slices.Equal(names, m.names) {
		m.t.Fatalf("%s the gang's tasks have started as %q, and first as %q", when, names, m.names)
	}
}

// wrote holds what the newer version wrote in one round: a token, and jobs of which one has finished and two wait for
// the gang.
type wrote struct{ person, done, waiting, array, revision string }

func (m *moving) writes(round int) *wrote {
	m.t.Helper()
	file := filepath.Join(m.folder, "queues.yaml")
	text := fmt.Sprintf("apiVersion: synapse/v1\nkind: Queues\ndefault: research\nqueues:\n"+
		"- {name: research, weight: %d}\n- {name: night, limit: {gpu: 16}}\n", round+1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.run("apply", "-f", file)
	w := &wrote{person: fmt.Sprintf("ann-%d", round), revision: fmt.Sprintf("revision: %d\n", round+1)}
	m.run("token", "create", "--role", "submitter", "--user", w.person, "--out", filepath.Join(m.folder, w.person))
	w.done = m.submit("--name", fmt.Sprintf("Done_Run.%d", round), "--queue", "night", "--", "true")
	m.run("wait", w.done)
	w.waiting = m.submit("--name", "waiting", "-N", "2", "--gpu", "8", "--", "true")
	w.array = m.submit("--name", "array", "--array", "0-2", "--gpu", "8", "--", "true")
	return w
}

// has checks that the newer version has all of it, and notifies each end once.
func (m *moving) has(all []*wrote) {
	m.t.Helper()
	if len(all) == 0 {
		return
	}
	last := all[len(all)-1]
	if text := m.run("get", "queues", "-o", "yaml"); !strings.Contains(text, last.revision) {
		m.t.Errorf("the queues have no %q:\n%s", last.revision, text)
	}
	tokens, history := m.run("token", "list"), m.run("history", "--queue", "night")
	for round, w := range all {
		if name := fmt.Sprintf("Done_Run.%d", round); !strings.Contains(history, name) {
			m.t.Errorf("no job has the name %s:\n%s", name, history)
		}
		if !strings.Contains(tokens, w.person) {
			m.t.Errorf("no token of %s is listed:\n%s", w.person, tokens)
		}
		if !strings.Contains(history, w.done) {
			m.t.Errorf("job %s is not in the history:\n%s", w.done, history)
		}
		if got := m.look(w.array); got.Phase != "queued" || got.Elements.Waiting != 3 {
			m.t.Errorf("the array is %s, and %d of its 3 elements wait", got.Phase, got.Elements.Waiting)
		}
		m.until("somebody is told of the end of "+w.done, func() bool { return m.told(w.done) > 0 })
		if n := m.told(w.done); n != 1 {
			m.t.Errorf("the end was notified %d times for job %s", n, w.done)
		}
	}
}

// shows checks that the last release's command line shows the fields that it knows.
func (m *moving) shows(all []*wrote) {
	m.t.Helper()
	history := m.run("history", "--queue", "night")
	for _, w := range all {
		if !strings.Contains(history, w.done) {
			m.t.Errorf("job %s is not in the history:\n%s", w.done, history)
		}
		for _, id := range []string{w.waiting, w.array} {
			if got := m.look(id); got.Phase != "queued" {
				m.t.Errorf("job %s is %s, but should wait", id, got.Phase)
			}
		}
	}
}

// ends lets the gang end, and checks that all jobs that waited for it run, from every round.
func (m *moving) ends(all []*wrote) {
	m.t.Helper()
	able.WriteFile(m.t, m.goOn, "", 0o644)
	m.run("wait", m.gang)
	for _, w := range all {
		m.run("wait", w.waiting, w.array)
	}
	m.run("audit", "verify", m.path("scheduler/audit")) // over the lines of both versions
}
