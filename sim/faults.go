package sim

import (
	"slices"
	"time"
)

// This file owns when faults happen. A site that was drawn has a next moment:
// the world's own sites act at it, the others strike at the first chance after
// it. So each one that was drawn happens, whatever else the run does.

// site is a sort of fault.
type site struct {
	name         string
	needsStandby bool
	needsLease   bool
	needsFile    bool
	noFile       bool // what it does to the store is done to the model alone
	deposes      bool // a leader that has a lease loses it by this
	rare         bool // it is drawn in one run of ten, not of four
	byGangs      bool // whether it can strike depends on which gangs start: a run that drew it may miss it
	calm         bool // no word is lost by it, and no machine, agent or leader
	apart        bool // whether it is drawn changes nothing else that is drawn
	few          int  // how often at most; 0: as often as time allows
	// act does it, and answers false when there was nothing to do it to. Sites
	// without act strike where somebody asks fires.
	act func(*faults) bool
}

// moment is when a site strikes next, and how often it has.
type moment struct {
	site   *site
	next   instant
	struck int
	eager  bool // it strikes at every opportunity, as often as its site allows
}

// faults are the sites that are active in this run.
type faults struct {
	w       *World
	active  []*moment
	byName  map[string]*moment
	counted map[string]int // everything that happened, drawn sites and their consequences
	mending []func()       // what heals the faults that are on now
	lost    int            // machines that never come back
	clocks  int
	wall    *time.Duration // how far the last leader's wall clock is off
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

// siteNamed is a sort of fault; nil: there is none of that name.
func siteNamed(name string) *site {
	if i := slices.IndexFunc(sites, func(s site) bool { return s.name == name }); i >= 0 {
		return &sites[i]
	}
	return nil
}

// soon is the first moment of a site: early enough for the run to see it.
func (f *faults) soon() instant {
	return f.w.engine.now.plus(f.w.luck.between(f.w.draw.Load/60, f.w.draw.Load/3))
}

// again is the next one: now and then right after the last, because faults in
// a row find what single ones do not.
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

// fires reports whether a site strikes now, where somebody offers it the chance.
func (w *World) fires(name string) bool {
	m := w.faults.byName[name]
	if m == nil || w.engine.now < m.next || w.faults.spent(m) {
		return false
	}
	w.faults.strike(m)
	return true
}

// fired counts something bad that happened.
func (w *World) fired(what string) {
	w.faults.counted[what]++
	w.counters["fault."+what]++
	w.struckBy(what)
}

// odds is how probable it is that a run has such faults.
func (s *site) odds(d *Draw) float64 {
	switch {
	case s.needsFile:
		return 1 // few worlds have one
	case s.rare:
		return 0.1
	}
	return 0.25
}

// fits reports whether a world has what a site breaks.
func (s *site) fits(d *Draw) bool {
	return (!s.needsLease || !d.Alone) && (!s.needsFile || d.File) && (!s.noFile || !d.File)
}

// calmIn reports whether no word is lost by a site in such a world.
func (s *site) calmIn(d *Draw) bool { return s.calm && (d.Alone || !s.deposes) }

// calm reports whether no word is ever lost in this run.
func (f *faults) calm() bool {
	loud := slices.ContainsFunc(f.active, func(m *moment) bool { return !m.site.calmIn(&f.w.draw) })
	return !loud && len(f.byName) == len(f.active) // a script armed nothing beside
}

// missed are the sites that were drawn and never struck.
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

// until does something for a while: now, and back after so long or when all heals.
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

// heal ends every fault that does not last for ever.
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

// pick answers a random machine that has power.
func (f *faults) pick() *machine {
	for range 8 {
		if m := f.w.machines[f.w.luck.below(len(f.w.machines))]; m.powered {
			return m
		}
	}
	return nil
}

// busy answers a machine that has work, if chance finds one.
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

// mayLose reports whether one more machine may go for ever: a few, and one of each sort.
func (f *faults) mayLose(site string) bool {
	return f.lost < max(2, len(f.w.machines)/16) || f.byName[site].struck == 0
}

// spent reports whether a site has done its part while load only goes on for others.
func (f *faults) spent(m *moment) bool {
	return f.w.healed || f.w.lingering && m.struck > 0 || m.site.few > 0 && m.struck >= m.site.few
}
