package suspicion

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file tests the decision with single cases, and with weeks of failures of a cluster.

const (
	hour = int64(time.Hour)
	day  = 24 * hour
)

var attempts uint64

// failed notes a failure of a job at an hour.
func failed(d *Docket, node string, job, owner string, at int64) topology.Token {
	attempts++
	token := topology.Token{Epoch: 1, Counter: attempts}
	d.Note(topology.NodeID(node), Failure{Attempt: token, Job: topology.JobID(job), Owner: owner, AtNs: at})
	return token
}

// TestGrades checks the grade of node n after some failures.
func TestGrades(t *testing.T) {
	type failure struct {
		node, job, owner string
		at               int64
	}
	for _, c := range []struct {
		name     string
		failures []failure
		now      int64
		one      bool // only one owner has jobs
		want     Grade
	}{
		{"no failure", nil, 0, false, Clear},
		{"one failure", []failure{{"n", "a", "ann", 0}}, 0, false, Clear},
		{"two failures", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", hour}}, hour, false, Suspect},
		{"three failures", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", hour}, {"n", "c", "ann", 9 * hour}}, 9 * hour,
			false, Guilty},
		{"of one owner", []failure{{"n", "a", "ann", 0}, {"n", "b", "ann", hour}, {"n", "c", "ann", 2 * hour}}, 2 * hour,
			false, Clear},
		{"of the only owner", []failure{{"n", "a", "ann", 0}, {"n", "b", "ann", hour}, {"n", "c", "ann", 2 * hour}},
			2 * hour, true, Guilty},
		{"of one job", []failure{{"n", "a", "ann", 0}, {"n", "a", "ann", hour}, {"n", "a", "ann", 2 * hour},
			{"n", "b", "bob", 3 * hour}}, 3 * hour, false, Suspect},
		{"at the same time", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", 1}, {"n", "c", "cid", 2}}, hour, false, Clear},
		{"of a job that fails everywhere", []failure{{"n", "a", "ann", 0}, {"m", "a", "ann", hour},
			{"o", "a", "ann", 2 * hour}, {"n", "b", "bob", 3 * hour}}, 3 * hour, false, Clear},
		{"of a job that fails on two nodes", []failure{{"n", "a", "ann", 0}, {"m", "a", "ann", hour},
			{"n", "b", "bob", 3 * hour}}, 3 * hour, false, Suspect},
		{"long ago", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", hour}, {"n", "c", "ann", 2 * hour}}, 15 * day, false,
			Clear},
		{"days ago", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", hour}, {"n", "c", "ann", 2 * hour}}, 3 * day, false,
			Suspect},
		{"far apart", []failure{{"n", "a", "ann", 0}, {"n", "b", "bob", 5 * day}, {"n", "c", "ann", 10 * day}}, 10 * day,
			false, Clear},
		{"on other nodes", []failure{{"m", "a", "ann", 0}, {"o", "b", "bob", hour}, {"n", "c", "cid", hour}}, hour, false,
			Clear},
	} {
		d := &Docket{}
		for _, f := range c.failures {
			failed(d, f.node, f.job, f.owner, f.at)
		}
		if got := d.Grade("n", c.now, !c.one); got != c.want {
			t.Errorf("%s: grade %d, want %d", c.name, got, c.want)
		}
		if listed := slices.Contains(d.Suspects(c.now, !c.one), "n"); listed != (c.want > Clear) {
			t.Errorf("%s: in the list of suspects: %v", c.name, listed)
		}
	}
}

// TestLaterVerdict checks that a later verdict on the same attempt replaces the earlier one, or withdraws it.
func TestLaterVerdict(t *testing.T) {
	d := &Docket{}
	failed(d, "n", "a", "ann", 0)
	token := failed(d, "n", "b", "bob", hour)
	d.Note("m", Failure{Attempt: token, Job: "b", Owner: "bob", AtNs: hour})
	if d.Grade("n", hour, true) != Clear || len(d.Counted("m", hour)) != 1 || len(d.Counted("n", hour)) != 1 {
		t.Errorf("n has %v, m has %v", d.Counted("n", hour), d.Counted("m", hour))
	}
	d.Withdraw(token)
	if len(d.Counted("m", hour)) != 0 {
		t.Errorf("after the withdrawal m has %v", d.Counted("m", hour))
	}
}

// TestForgets checks that the memory is bounded, that an operator's word acquits a node, and that each back-off is
// longer.
func TestForgets(t *testing.T) {
	d := &Docket{}
	for i := range int64(1000) {
		failed(d, "n", fmt.Sprint("j", i), fmt.Sprint("o", i%2), i*hour)
	}
	if len(d.nodes["n"]) > MaxFailures || len(d.by) > MaxFailures {
		t.Errorf("it keeps %d failures and %d attempts", len(d.nodes["n"]), len(d.by))
	}
	if a, b, c, e := d.Rest("n"), d.Rest("n"), d.Rest("n"), d.Rest("n"); a != FirstRest || b != 2*FirstRest ||
		c != 4*FirstRest || e != MostRest {
		t.Errorf("the back-offs last %s, %s, %s, %s", a, b, c, e)
	}
	d.Acquit("n")
	if d.Grade("n", 1000*hour, true) != Clear || len(d.by) > 0 || d.Rest("n") != FirstRest {
		t.Errorf("after it was acquitted: %v", d.nodes)
	}
	failed(d, "m", "a", "ann", 0)
	if !d.Tidy(hour) || d.Tidy(15*day) || len(d.nodes) > 0 {
		t.Error("old failures are kept")
	}
}

// replay plays weeks of a cluster of 63 nodes. Three of them cause half of all failures. Of the other failures, the
// jobs cause three in four, which never reach the docket, and random nodes cause the rest. It returns after how many
// failures each bad node was suspected and backed off, and how often a good node was backed off.
func replay(seed uint64, weeks int) (suspected, backedOff []int, good int) {
	const nodes, bad, perDay = 63, 3, 8
	random := rand.New(rand.NewPCG(seed, 2605))
	d := &Docket{}
	seen, suspect, guilty := make([]int, nodes), make([]int, nodes), make([]int, nodes)
	until := make([]int64, nodes)
	now, job := int64(0), 0
	for now < int64(weeks)*7*day {
		now += int64(random.ExpFloat64() * float64(day) / perDay)
		node := bad + random.IntN(nodes-bad)
		switch {
		case random.IntN(2) == 0:
			node = random.IntN(bad)
		case random.IntN(4) > 0:
			continue // caused by the job
		}
		if until[node] > now {
			continue // it runs nothing
		}
		job++
		seen[node]++
		name := topology.NodeID(fmt.Sprint("n", node))
		failed(d, string(name), fmt.Sprint("j", job), fmt.Sprint("o", random.IntN(12)), now)
		grade := d.Grade(name, now, true)
		if grade > Clear && suspect[node] == 0 {
			suspect[node] = seen[node]
		}
		if grade == Guilty {
			until[node] = now + int64(d.Rest(name))
			if node >= bad {
				good++
			} else if guilty[node] == 0 {
				guilty[node] = seen[node]
			}
		}
	}
	return suspect[:bad], guilty[:bad], good
}

// TestReplay checks that each bad node is suspected within 3 failures, and that at most one good node is backed off in
// a simulated week.
func TestReplay(t *testing.T) {
	const seeds, weeks = 200, 4
	within, backed, most, all := 0, 0, 0, 0
	for seed := range uint64(seeds) {
		suspected, backedOff, good := replay(seed, weeks)
		for i := range suspected {
			if suspected[i] >= 1 && suspected[i] <= 3 {
				within++
			}
			if backedOff[i] == 3 {
				backed++
			}
		}
		all, most = all+good, max(most, good)
	}
	t.Logf("of %d bad nodes, %d were suspected within 3 failures, %d backed off after 3; %d good nodes were backed off "+
		"in %d weeks, at most %d in %d weeks", 3*seeds, within, backed, all, seeds*weeks, most, weeks)
	if within < 3*seeds*98/100 {
		t.Errorf("%d of %d bad nodes were suspected within 3 failures", within, 3*seeds)
	}
	if backed < 3*seeds*80/100 {
		t.Errorf("%d of %d bad nodes were backed off after 3 failures", backed, 3*seeds)
	}
	if all > seeds*weeks || most > weeks {
		t.Errorf("%d good nodes were backed off in %d weeks, at most %d in %d weeks", all, seeds*weeks, most, weeks)
	}
}

// TestKnown checks that what one docket knows makes another one equal, and that the nodes with the oldest failures are
// left out if there are too many.
func TestKnown(t *testing.T) {
	var d, next Docket
	for i := range mostKnown + 50 {
		for k := range 3 {
			d.Note(topology.NodeID(fmt.Sprintf("n%05d", i)), Failure{
				Attempt: topology.Token{Epoch: 1, Counter: uint64(3*i + k + 1)}, Job: topology.JobID(fmt.Sprint("j", i, k)),
				Owner: fmt.Sprint("o", k), AtNs: int64(i)*int64(time.Second) + int64(k)*int64(apart),
			})
		}
	}
	now := int64(time.Hour)
	d.Rest("n00060")
	all := d.Known()
	if len(all) != mostKnown || all[0].Node != "n00050" || all[10].Rest != FirstRest {
		t.Fatalf("knows %d nodes, the first is %s, the next rest is %s", len(all), all[0].Node, all[10].Rest)
	}
	for _, k := range all {
		next.Recall(k)
	}
	for _, k := range all {
		if a, b := d.Grade(k.Node, now, true), next.Grade(k.Node, now, true); a != b || a != Guilty {
			t.Fatalf("%s has the grade %d, and had %d", k.Node, b, a)
		}
	}
	if rest := next.Rest("n00060"); rest != 2*FirstRest {
		t.Errorf("the second rest takes %s", rest)
	}
	next.Withdraw(topology.Token{Epoch: 1, Counter: 3*60 + 1})
	if n := len(next.Counted("n00060", now)); n != 2 {
		t.Errorf("after a corrected verdict, %d failures count", n)
	}
}
