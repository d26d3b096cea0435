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
	"github.com/yi-json/synapse/topology/suspicion"
)

// This file holds the second half of S15: at rest, with all jobs finished, no map and no list of any actor holds
// finished objects. Reflection walks through the actors, so new fields are counted automatically. The variable keeps
// lists the exceptions with their bounds and reasons.

// lasting lists the actors that last as long as their process. All others must have ended, according to the process's
// registry.
var lasting = []actors.Kind{actors.KindScheduler, actors.KindRack, actors.KindJournal, actors.KindMirror,
	actors.KindNode}

// keep is the bound at rest for a field and everything below it, if the field keeps more than live objects.
type keep struct {
	field string // path of the walk: the actor's type and the names of fields
	most  func(c *bounded, w *World, p *process) int
}

// keeps lists the fields that are kept on purpose.
var keeps = []keep{
	// The newest finished jobs, for readers.
	{"Mirror.jobs", func(_ *bounded, w *World, p *process) int { return w.constants.MirrorFinished + usual(w, p) }},
	{"Mirror.finished.order", func(_ *bounded, w *World, _ *process) int { return w.constants.MirrorFinished }},
	// The last events, for watchers that reconnect.
	{"Mirror.watch.last", func(*bounded, *World, *process) int { return 1_000 }},
	// The failures that count against nodes, for two weeks.
	{"Scheduler.suspects.docket", func(_ *bounded, w *World, _ *process) int {
		return (1 + suspicion.MaxFailures) * len(w.machines)
	}},
	// Changed shelves since the last look of the lenses: at most changeLimit in topology.
	{"Scheduler.view.tree.changes.log", func(*bounded, *World, *process) int { return 1 << 16 }},
	// Labels for selecting each node: its places, and the two networks that its agent announces.
	{"Scheduler.view.tree.root", labelsOfMachines},
	// The texts of selectors that were used: at most selectorLimit in topology.
	{"Scheduler.view.tree.kinds.selectors", func(*bounded, *World, *process) int { return 1 << 12 }},
	// Labels of each kind of node, and there may be one kind per node that ever existed: its places, its networks,
	// its label.
	{"Scheduler.view.tree.kinds", labelsOfKinds},
	// The capacity for one shape of gang: a cache within lensBudget of topology, and the temporary data of one
	// query.
	{"Scheduler.view.tree.lenses", func(*bounded, *World, *process) int { return 1 << 16 }},
	// The same for expected free capacity: as many outlooks as topology keeps, each with its lens and its gains.
	{"Scheduler.view.tree.horizon", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Scheduler.view.tree.work", func(*bounded, *World, *process) int { return 1 << 12 }},
	// The Mirror's copy follows the view, node by node.
	{"Mirror.picture.tree.changes.log", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Mirror.picture.tree.root", labelsOfMachines},
	{"Mirror.picture.tree.kinds", labelsOfKinds},
	{"Mirror.picture.tree.lenses", func(*bounded, *World, *process) int { return 1 << 16 }},
	{"Mirror.picture.tree.work", func(*bounded, *World, *process) int { return 1 << 12 }},
	// The boots that identify a late Hello of an earlier boot: at most pastBootsKept in actors, for each node.
	{"Scheduler.machines.pastBoots", func(_ *bounded, w *World, _ *process) int {
		return 16 * (len(w.machines) + w.visits)
	}},
	// UIDs with kept files, until the files are old: from each node's last report, which S28 checks.
	{"Scheduler.machines.room.held", func(_ *bounded, w *World, _ *process) int {
		return (len(w.machines) + w.visits) * w.draw.UIDs.Len()
	}},
	{"Scheduler.view.uids.holds", func(_ *bounded, w *World, p *process) int { return len(w.lying()) + usual(w, p) }},
	{"Scheduler.view.uids.owners", func(_ *bounded, w *World, p *process) int { return len(w.lying()) + usual(w, p) }},
	{"Node.uids", func(_ *bounded, w *World, _ *process) int { return w.draw.UIDs.Len() }},
	// Run times of each kind of job, for the kinds in most frequent use.
	{"Scheduler.learning.cells", func(*bounded, *World, *process) int { return estimate.MaxCells }},
	// Ended attempts, for as long as a late order about them may arrive.
	{"Node.ledger.tombs.list", (*bounded).ordered},
}

// labelsOfMachines returns the bound of the labels for selecting nodes.
func labelsOfMachines(_ *bounded, w *World, p *process) int {
	return 2*(len(w.machines)+w.visits) + usual(w, p)
}

// labelsOfKinds returns the bound of the labels of kinds of nodes.
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

// ordered returns the maximum number of attempts with orders to a node within the lifetime of a tombstone. Tombstones
// are swept only when a new one is added, and lost or refused orders leave none. So the last sweep may be long ago, and
// its remainder is from one such time span.
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

// fieldCounts counts the elements of each field, in the actor and everything that it owns.
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

// ours reports whether a type belongs to the actors themselves, and not to the messages that they hold or to the ports.
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
			below := field // an embedded field belongs to the struct itself
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
			return // text, or the content of a disk
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

// Quiet counts the elements that every process keeps.
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
			c.violate(w, "%s at rest: %d actors live, but only %d may", p.address, n, len(p.lasting))
		}
	}
}

// working returns how many actors may work at rest. A leader may have actors for attempts that lack exit confirmations.
// A node may have one actor per member in its ledger. Every schedulable node has none at rest, which S14 checks. A node
// that was cut off for ever continues with whole gangs, because no leader can stop them.
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
			c.violate(w, "%s at rest: %s holds %d, but %d are allowed", p.address, field, fields[field], most)
		}
	}
}
