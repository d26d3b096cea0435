package sim

import (
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/policy/estimate"
)

// This file owns the other half of S15: at rest, when every job is over, no map
// and no list of any actor holds what is over. The actors are walked by
// reflection, so that a field which somebody adds is counted without a word here.
// What is kept on purpose stands in keeps, with its bound and its reason.

// lasting are the actors that live as long as their process. The others must have
// ended, which the process's registry tells.
var lasting = []actors.Kind{actors.KindScheduler, actors.KindRack, actors.KindJournal, actors.KindMirror,
	actors.KindNode}

// keep is the bound of a field at rest, and of all below it, that keeps more than
// what is alive.
type keep struct {
	field string // as walked: the actor's type, and the names of fields
	most  func(c *bounded, w *World, p *process) int
}

// keeps lists the fields that are kept on purpose.
var keeps = []keep{
	// The newest jobs that are over, for readers.
	{"Mirror.jobs", func(_ *bounded, w *World, p *process) int { return w.constants.MirrorFinished + usual(w, p) }},
	{"Mirror.finished.order", func(_ *bounded, w *World, _ *process) int { return w.constants.MirrorFinished }},
	// The last events, for watchers that come again.
	{"Mirror.watch.last", func(*bounded, *World, *process) int { return 1_000 }},
	// Which shelves changed since the lenses looked: as many as changeLimit in topology.
	{"Scheduler.view.fabric.changes.log", func(*bounded, *World, *process) int { return 1 << 16 }},
	// What each machine is selected by: beside its places the networks that its agent announces, of which there are two.
	{"Scheduler.view.fabric.root", labelsOfMachines},
	// The texts of selectors that were asked for: as many as selectorLimit in topology.
	{"Scheduler.view.fabric.kinds.selectors", func(*bounded, *World, *process) int { return 1 << 12 }},
	// The same of each kind of machine, of which there may be one for each that ever was: its places, its networks, its
	// label.
	{"Scheduler.view.fabric.kinds", labelsOfKinds},
	// The room as it looks to one sort of gang: a cache within lensBudget of topology, and the scratch of one question.
	{"Scheduler.view.fabric.lenses", func(*bounded, *World, *process) int { return 1 << 16 }},
	// The same of what will be free: as many outlooks as topology keeps, each with its lens and its gains.
	{"Scheduler.view.fabric.horizon", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Scheduler.view.fabric.work", func(*bounded, *World, *process) int { return 1 << 12 }},
	// What readers are answered from follows the view, machine for machine.
	{"Mirror.picture.fabric.changes.log", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Mirror.picture.fabric.root", labelsOfMachines},
	{"Mirror.picture.fabric.kinds", labelsOfKinds},
	{"Mirror.picture.fabric.lenses", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Mirror.picture.fabric.work", func(*bounded, *World, *process) int { return 1 << 12 }},
	// How a late Hello of an earlier boot is known: as many as pastBootsKept in actors, of each machine.
	{"Scheduler.machines.pastBoots", func(_ *bounded, w *World, _ *process) int {
		return 16 * (len(w.machines) + w.visits)
	}},
	// What lies on machines under uids, until it is old: as each said last, and S28 says that it is true.
	{"Scheduler.machines.room.held", func(_ *bounded, w *World, _ *process) int {
		return (len(w.machines) + w.visits) * w.draw.UIDs.Len()
	}},
	{"Scheduler.view.uids.holds", func(_ *bounded, w *World, p *process) int { return len(w.lying()) + usual(w, p) }},
	{"Scheduler.view.uids.owners", func(_ *bounded, w *World, p *process) int { return len(w.lying()) + usual(w, p) }},
	{"Node.uids", func(_ *bounded, w *World, _ *process) int { return w.draw.UIDs.Len() }},
	// How long jobs of each kind ran, those that are used most.
	{"Scheduler.learning.cells", func(*bounded, *World, *process) int { return estimate.MaxCells }},
	// Attempts that are over, for as long as a late order about them may come.
	{"Node.ledger.tombs.list", (*bounded).ordered},
}

// labelsOfMachines bounds what the machines of a fabric are selected by.
func labelsOfMachines(_ *bounded, w *World, p *process) int {
	return 2*(len(w.machines)+w.visits) + usual(w, p)
}

// labelsOfKinds bounds the same of kinds of machines.
func labelsOfKinds(_ *bounded, w *World, p *process) int {
	return (len(w.draw.Levels)+3)*(len(w.machines)+w.visits) + usual(w, p)
}

// usual returns the number of entries that any field may have at rest. That is one for each node that ever existed,
// because the name of a removed one may return, for each device, and for each attempt with an unconfirmed allocation.
func usual(w *World, p *process) int {
	if p.machine != nil {
		return 4 + 2*len(p.machine.announcement.Gpus)
	}
	return 8 + 2*(len(w.machines)+w.visits+len(w.books.attempts))
}

// ordered counts the attempts that a machine was sent an order about in the busiest time
// as long as tombstones are kept for. They are swept only as new ones come, and no order that is lost
// or refused leaves one: the last sweep may be long ago, and what it left is of one such time.
func (c *bounded) ordered(w *World, p *process) (most int) {
	var times []instant
	for _, at := range c.orders[p.machine.address] { //order: sorted below
		times = append(times, at)
	}
	slices.Sort(times)
	first := 0
	for i, at := range times {
		for at.since(times[first]) >= 2*w.constants.TombstoneAge {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// fieldCounts counts the elements that each field has, in the actor and all that it owns.
type fieldCounts struct {
	fields map[string]int
	seen   map[uintptr]bool
}

func countOf(a any) map[string]int {
	c := fieldCounts{fields: map[string]int{}, seen: map[uintptr]bool{}}
	v := reflect.ValueOf(a)
	c.walk(v, v.Type().Elem().Name())
	return c.fields
}

var message = reflect.TypeFor[proto.Message]()

// ours reports whether a type is the actors' own to look into: not a message,
// which is what they hold, and not the ports.
func ours(t reflect.Type) bool {
	if t == reflect.TypeFor[leader.Ports]() || t == reflect.TypeFor[worker.Ports]() ||
		t == reflect.TypeFor[actors.Ports]() ||
		strings.HasPrefix(t.String(), "actors.Table[") || t.Implements(message) || reflect.PointerTo(t).Implements(message) {
		return false
	}
	path := t.PkgPath()
	return path == "" || strings.Contains(path+"/", "/actors/") ||
		strings.Contains(path+"/", "/policy/") || strings.Contains(path+"/", "/topology/")
}

func (c *fieldCounts) walk(v reflect.Value, field string) {
	if !v.IsValid() || !ours(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !c.seen[v.Pointer()] {
			c.seen[v.Pointer()] = true
			c.walk(v.Elem(), field)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			below := field // what is embedded is the struct's own
			if f := v.Type().Field(i); !f.Anonymous {
				below += "." + f.Name
			}
			c.walk(v.Field(i), below)
		}
	case reflect.Map:
		c.fields[field] += v.Len()
		for i := v.MapRange(); i.Next(); {
			c.walk(i.Value(), field)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // text, or what a disk is written from
		}
		c.fields[field] += v.Len()
		fallthrough
	case reflect.Array:
		if !plain(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				c.walk(v.Index(i), field)
			}
		}
	}
}

func plain(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

// Quiet counts what every process keeps.
func (c *bounded) Quiet(w *World) {
	var all []*process
	for _, h := range w.schedulers {
		all = append(all, h.proc)
	}
	for _, m := range w.machines {
		all = append(all, m.proc)
	}
	for _, p := range all {
		if p == nil || p.dead {
			continue
		}
		for _, box := range p.lasting {
			c.kept(w, p, box)
		}
		if n := p.system.ProcessRegistry.LocalPIDs.LocalPIDs[0].Count(); n > len(p.lasting)+4+working(w, p) {
			c.violate(w, "%s at rest: %d actors live, and %d of them last", p.address, n, len(p.lasting))
		}
	}
}

// working is how many actors may work at rest: a leader's on attempts that lack evidence, and a machine's
// one per member that its own ledger holds. Every machine that is open holds none at rest, which S14 sees;
// one that was cut off for ever goes on with whole gangs, since nobody can tell it that they are over.
func working(w *World, p *process) int {
	if p.machine == nil {
		return 2 * len(w.books.attempts)
	}
	n := 0
	for _, l := range p.machine.slices() {
		n += len(l.Grants)
	}
	return n
}

func (c *bounded) kept(w *World, p *process, box *mailbox) {
	fields := countOf(box.actor())
	for _, field := range sortedKeys(fields) {
		most := usual(w, p)
		if i := slices.IndexFunc(keeps, func(k keep) bool { return strings.HasPrefix(field, k.field) }); i >= 0 {
			most = keeps[i].most(c, w, p)
		}
		if fields[field] > most {
			c.violate(w, "%s at rest: %s holds %d, and %d are allowed", p.address, field, fields[field], most)
		}
	}
}
