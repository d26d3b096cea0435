package sim

import (
	"slices"
	"time"
)

// This file decides when faults happen. Each drawn site has a next moment. The world's own sites act at that moment.
// The others strike at the first chance after it. So each drawn fault happens, whatever else the run does.

// site is one kind of fault.
type site struct {
	name         string
	needsStandby bool
	needsLease   bool
	needsFile    bool
	noFile       bool // it affects only the in-memory model of the store
	deposes      bool // a leader with a lease loses the lease by this fault
	rare         bool // it is drawn in one run of ten instead of one of four
	byGangs      bool // it can strike only if certain gangs start, so a run that drew it may miss it
	calm         bool // it loses no message, node, agent or leader
	apart        bool // drawing it changes no other draw
	few          int  // most strikes in a run; 0: as many as time allows
	// act causes the fault. It returns false if it found no target. Sites without act strike at calls of fires.
	act func(*faults) bool
}

// moment holds when a site strikes next, and how often it has.
type moment struct {
	site   *site
	next   instant
	struck int
	eager  bool // it strikes at every opportunity, as often as its site allows
}

// faults holds the sites that are active in this run.
type faults struct {
	w       *World
	active  []*moment
	byName  map[string]*moment
	counted map[string]int // all faults that happened, with their consequences
	mending []func()       // functions that repair the present faults
	lost    int            // number of nodes that never return
	clocks  int
	wall    *time.Duration // offset of the last leader's wall clock
}

func newFaults(w *World) *faults {
	f := &faults{w: w, byName: map[string]*moment{}, counted: map[string]int{}}
	for _, name := range w.draw.Faults {
		f.activate(name)
	}
	return f
}

func (f *faults) activate(name string) {
	s := siteNamed(name)
	if s == nil {
		return
	}
	m := &moment{site: s, next: f.soon()}
	if name == "actor-break" {
		f.w.breaking = &breaking{jobs: map[string]int{}}
	}
	f.active = append(f.active, m)
	f.byName[name] = m
	if s.act != nil {
		f.schedule(m)
	}
}

// siteNamed returns the site with this name, or nil.
func siteNamed(name string) *site {
	if i := slices.IndexFunc(sites, func(s site) bool { return s.name == name }); i >= 0 {
		return &sites[i]
	}
	return nil
}

// soon returns the first moment of a site, early enough for the run to see it.
func (f *faults) soon() instant {
	return f.w.engine.now.plus(f.w.luck.between(f.w.draw.Load/60, f.w.draw.Load/3))
}

// again returns the next moment of a site. Sometimes it follows the last one at once, because repeated faults find bugs
// that single faults do not.
func (f *faults) again() instant {
	if f.w.luck.chance(0.25) {
		return f.w.engine.now.plus(f.w.luck.between(0, 500*time.Millisecond))
	}
	return f.w.engine.now.plus(f.w.luck.between(f.w.draw.Pace/4, f.w.draw.Pace*2))
}

func (f *faults) schedule(m *moment) {
	f.w.engine.at(m.next, action(func() {
		if f.spent(m) {
			return
		}
		if m.site.act(f) {
			f.strike(m)
		} else {
			m.next = f.w.engine.now.plus(f.w.luck.between(100*time.Millisecond, 5*time.Second))
		}
		f.schedule(m)
	}))
}

func (f *faults) strike(m *moment) {
	m.struck++
	if !m.eager {
		m.next = f.again()
	}
	f.w.fired(m.site.name)
}

// fires reports whether a site strikes now. Code calls it at each opportunity for the fault.
func (w *World) fires(name string) bool {
	m := w.faults.byName[name]
	if m == nil || w.engine.now < m.next || w.faults.spent(m) {
		return false
	}
	w.faults.strike(m)
	return true
}

// fired counts a fault that happened.
func (w *World) fired(what string) {
	w.faults.counted[what]++
	w.counters["fault."+what]++
	w.struckBy(what)
}

// odds returns the probability that a run draws a site.
func (s *site) odds(d *Draw) float64 {
	switch {
	case s.needsFile:
		return 1 // few worlds have a file
	case s.rare:
		return 0.1
	}
	return 0.25
}

// fits reports whether a world has the part that a site breaks.
func (s *site) fits(d *Draw) bool {
	return (!s.needsLease || !d.Alone) && (!s.needsFile || d.File) && (!s.noFile || !d.File)
}

// calmIn reports whether a site loses no message in such a world.
func (s *site) calmIn(d *Draw) bool { return s.calm && (d.Alone || !s.deposes) }

// calm reports whether no message is ever lost in this run.
func (f *faults) calm() bool {
	loud := slices.ContainsFunc(f.active, func(m *moment) bool { return !m.site.calmIn(&f.w.draw) })
	return !loud && len(f.byName) == len(f.active) // a script added no further fault
}

// missed returns the sites that were drawn and never struck.
func (f *faults) missed() []string {
	var never []string
	for _, m := range f.active {
		if m.struck == 0 && !m.site.byGangs {
			never = append(never, m.site.name)
		}
	}
	return never
}

func (f *faults) total() int {
	n := 0
	for _, m := range f.active {
		n += m.struck
	}
	return n
}

// until starts a fault and calls back after d, or earlier when all faults are repaired.
func (f *faults) until(d time.Duration, back func()) {
	done := false
	once := func() {
		if !done {
			done = true
			back()
		}
	}
	f.mending = append(f.mending, once)
	f.w.engine.after(d, once)
}

// heal ends every fault that is not permanent.
func (f *faults) heal() {
	f.w.healed = true
	f.w.hostile = nil
	f.w.snares = slices.DeleteFunc(f.w.snares, func(s snare) bool { return s.job == "" })
	if f.w.observer != nil {
		f.w.observer.trap = noTrap
	}
	for _, back := range f.mending {
		back()
	}
	f.mending = nil
}

// pick returns a random node that has power.
func (f *faults) pick() *machine {
	for range 8 {
		if m := f.w.machines[f.w.luck.below(len(f.w.machines))]; m.powered {
			return m
		}
	}
	return nil
}

// busy returns a node that has work, if it finds one by chance.
func (f *faults) busy() *machine {
	var last *machine
	for range 12 {
		m := f.pick()
		if m == nil || m.proc == nil {
			continue
		}
		last = m
		if len(m.launcher.order) > 0 {
			break
		}
	}
	return last
}

// mayLose reports whether one more node may be lost for ever. A few may, and one by each site.
func (f *faults) mayLose(site string) bool {
	return f.lost < max(2, len(f.w.machines)/16) || f.byName[site].struck == 0
}

// spent reports whether a site has struck often enough while load continues only for other sites.
func (f *faults) spent(m *moment) bool {
	return f.w.healed || f.w.lingering && m.struck > 0 || m.site.few > 0 && m.struck >= m.site.few
}
