package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// made is a fake crew.
type made struct {
	mu      sync.Mutex
	found   map[string]Found
	states  map[string]State // states before the work
	after   map[string]State // states after the work
	fails   map[string]error
	work    func(name string) // called during the work
	applied []string
	busy    int
	most    int
}

// fitMachine is a node with eight GPUs, and freshMachine the same node with the next version.
var (
	fitMachine   = State{Known: true, Up: true, GPUs: 8, Version: "1"}
	freshMachine = State{Known: true, Up: true, GPUs: 8, Version: "2"}
)

func newMade(names ...string) *made {
	m := &made{found: map[string]Found{}, states: map[string]State{}, after: map[string]State{}, fails: map[string]error{},
		work: func(string) {}}
	for _, n := range names {
		m.found[n] = Found{Systemd: true, Kind: "deb", Arch: "x86_64", Version: "1", Active: true, Enabled: true, Keyed: true}
		m.states[n], m.after[n] = fitMachine, freshMachine
	}
	return m
}

func (m *made) Look(_ context.Context, h Host) (Found, error) {
	f, ok := m.found[h.Name]
	if !ok {
		return f, errors.New("ssh: no route to host")
	}
	return f, nil
}

func (m *made) Apply(_ context.Context, h Host, _ Work) (string, error) {
	m.mu.Lock()
	m.applied = append(m.applied, h.Name)
	m.busy++
	m.most = max(m.most, m.busy)
	m.mu.Unlock()
	m.work(h.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
	m.states[h.Name] = m.after[h.Name]
	return "2", m.fails[h.Name]
}

func (m *made) State(_ context.Context, name string) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[name], nil
}

// hostsOf returns nodes without settings.
func hostsOf(t *testing.T, names string) []Host {
	t.Helper()
	hosts, err := ReadHosts("hosts", []byte("nodes: {\""+names+"\": }"))
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// rolled runs a rollout of the second version to n1 … n8, with one canary and then three at a time.
func rolled(t *testing.T, m *made, change func(*Rollout)) (said string) {
	t.Helper()
	r := &Rollout{Hosts: hostsOf(t, "n[1-8]"), Crew: m, Canaries: 1, AtOnce: 3, Within: 50 * time.Millisecond,
		Poll: time.Millisecond, Plan: Plan{Packages: []Package{{File: "p", Version: "2", Arch: "x86_64", Kind: "deb"}}}}
	r.Tell = func(Host, string) {}
	if change != nil {
		change(r)
	}
	var lines []string
	for _, o := range r.Run(t.Context(), t.Context()) {
		lines = append(lines, fmt.Sprintf("%s %s: %s", o.Host.Name, o.End, o.Why))
	}
	return strings.Join(lines, "\n")
}

var eight = []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}

// TestCanary checks that no other node is started during the canary or after a failed one, and then the number of
// concurrent nodes.
func TestCanary(t *testing.T) {
	m := newMade(eight...)
	m.work = func(name string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if name == "n1" && m.busy > 1 {
			t.Error("others were begun beside the canary")
		}
	}
	if said := rolled(t, m, nil); strings.Count(said, "deployed: up, 8 GPUs, agent 2") != 8 {
		t.Error(said)
	}
	slices.Sort(m.applied)
	if m.most > 3 || !slices.Equal(m.applied, eight) {
		t.Errorf("%v, %d at a time", m.applied, m.most)
	}
	m = newMade(eight...)
	m.fails["n1"] = errors.New("dpkg: no space left")
	said := rolled(t, m, nil)
	if !strings.HasPrefix(said, "n1 worse: dpkg: no space left\nn2 not started: \n") || len(m.applied) != 1 {
		t.Errorf("%v\n%s", m.applied, said)
	}
}

// TestStops checks that after the first worse node no further one is started, and that running ones are completed.
func TestStops(t *testing.T) {
	for name, after := range map[string]State{
		"node had 8 GPUs and has 7": {Known: true, Up: true, GPUs: 7, Version: "2"},
		"quarantined: it claims 9":  {Known: true, Up: true, GPUs: 8, Version: "2", Closed: "quarantined: it claims 9"},
		"not up":                    {Known: true, Version: "2"},
		"up, 8 GPUs, agent 1":       fitMachine, // the old agent still runs
		"unknown to the cluster":    {},
	} {
		m, begun, told := newMade(eight...), make(chan struct{}), make(chan struct{})
		m.after["n3"] = after
		m.work = func(name string) {
			switch name {
			case "n3":
				<-begun
			case "n4":
				close(begun)
				<-told
			}
		}
		said := rolled(t, m, func(r *Rollout) {
			r.AtOnce = 2
			r.Tell = func(h Host, text string) {
				if h.Name == "n3" && strings.HasPrefix(text, "worse") {
					close(told)
				}
			}
		})
		if !strings.Contains(said, "n3 worse: "+name+"\nn4 deployed: ") || !strings.HasPrefix(said, "n1 deployed: ") {
			t.Errorf("%s: %s", name, said)
		}
		if begun := len(m.applied); begun > 5 || !strings.HasSuffix(said,
			"n6 not started: \nn7 not started: \nn8 not started: ") {
			t.Errorf("%s: %v\n%s", name, m.applied, said)
		}
	}
}

// TestNoWorse checks that a node that was unschedulable, dead or unknown is compared with that state.
func TestNoWorse(t *testing.T) {
	m := newMade(eight...)
	drained := State{Known: true, Up: true, GPUs: 8, Version: "1", Closed: "drained by ann: fan"}
	m.states["n2"], m.after["n2"] = drained, State{Known: true, Up: true, GPUs: 8, Version: "2", Closed: drained.Closed}
	dead := State{Known: true, Version: "1", Closed: "dead"}
	m.states["n3"], m.after["n3"] = dead, dead
	m.states["n4"] = State{} // a new node
	m.states["n5"], m.after["n5"] = State{Known: true, Up: true, GPUs: 7, Version: "1"}, freshMachine
	said := rolled(t, m, nil)
	if strings.Count(said, "deployed") != 7 || !strings.Contains(said, "n3 no better: dead\n") {
		t.Error(said)
	}
}

// TestAsItShouldBe checks that a node without work is not changed and is no canary. A node that cannot be reached
// or changed does not stop the rollout.
func TestAsItShouldBe(t *testing.T) {
	m := newMade(eight...)
	r := &Rollout{Hosts: hostsOf(t, "n[1-8]")}
	for _, n := range []string{"n1", "n2"} {
		f := m.found[n]
		f.Version = "2"
		f.Settings, _ = r.Hosts[slices.Index(eight, n)].File(true)
		m.found[n] = f
	}
	m.states["n2"] = State{Known: true, Closed: "dead"}
	delete(m.found, "n3")
	m.found["n4"] = Found{Systemd: true, Kind: "rpm", Arch: "x86_64"}
	said := rolled(t, m, nil)
	want := "n1 unchanged: up, 8 GPUs, agent 1\nn2 no better: dead\nn3 refused: ssh: no route to host\n" +
		"n4 refused: no package is a .rpm for x86_64\nn5 deployed: "
	if !strings.HasPrefix(said, want) || m.applied[0] != "n5" || len(m.applied) != 4 {
		t.Errorf("%v\n%s", m.applied, said)
	}
	m.applied = nil
	said = rolled(t, m, func(r *Rollout) { r.Dry = true })
	if m.applied != nil || !strings.Contains(said, "n5 not started: replaces 1 with 2, writes settings") ||
		!strings.HasPrefix(said, "n1 unchanged: up to date\n") {
		t.Errorf("%v\n%s", m.applied, said)
	}
}

// TestNoFurther checks that after the first interrupt no further node is started, and that running ones are
// completed.
func TestNoFurther(t *testing.T) {
	m := newMade(eight...)
	begin, stop := context.WithCancel(t.Context())
	m.work = func(name string) {
		if name == "n1" {
			stop()
		}
	}
	r := &Rollout{Hosts: hostsOf(t, "n[1-8]"), Crew: m, Canaries: 1, AtOnce: 3, Within: time.Second,
		Poll: time.Millisecond, Tell: func(Host, string) {},
		Plan: Plan{Packages: []Package{{Version: "2", Arch: "x86_64", Kind: "deb"}}}}
	all := r.Run(t.Context(), begin)
	if all[0].End != Done || all[1].End != NotBegun || len(m.applied) != 1 {
		t.Errorf("%v %v", all, m.applied)
	}
}
