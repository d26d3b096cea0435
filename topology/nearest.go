package topology

// This file has the details of a refusal for a gang that no node can hold. They are the node that comes closest, with
// its missing resources, and the valid names if the gang uses an unknown one. It visits all nodes, so it runs only for
// a user's question and never during placement.

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Nearest is the node that comes closest to holding one unit of a gang. It lacks the amounts that are in Asked and
// exceed Has.
type Nearest struct {
	Looked     bool
	Node       NodeID // "" if every node holds a unit
	Asked, Has Resources
}

// nearest returns the nearest node in the domain of a refusal.
func (x *explainer) nearest(r *Refusal, idle, all bool) Nearest {
	d := demandOf(&x.g)
	best, least := Nearest{Looked: true, Asked: d.need(1)}, int64(0)
	for _, sh := range x.f.plan.shelves {
		if !x.within(sh.rack, r) {
			continue
		}
		for i, s := range sh.seats {
			if r.Level == NodeLevel && string(s.id) != r.Domain || !x.serves(s) {
				continue
			}
			room := sh.rooms[i].supposed(idle, all)
			has := d.offer(&room)
			if lack := lackOf(best.Asked, has); room.usable && lack > 0 && (best.Node == "" || lack < least) {
				best.Node, best.Has, least = s.id, has, lack
			}
		}
	}
	return best
}

// detail adds the nearest node or the unmet requirement to a refusal.
func (x *explainer) detail(r *Refusal, idle bool) {
	switch r.Cause {
	case NoRoom:
		r.Near = x.nearest(r, idle, idle)
	case NoMatch:
		r.Unmet = x.f.unmet(&x.g)
	}
}

// serves reports whether the gang may use a node.
func (x *explainer) serves(s *seat) bool {
	return x.matches(s) && !slices.Contains(x.g.out(), s.id)
}

// matches reports whether a node is of a matching kind, and is named if the gang names nodes.
func (x *explainer) matches(s *seat) bool {
	return x.f.kinds.all[s.kind].matches(x.g.wanted()) && (len(x.g.Only) == 0 ||
		slices.Contains(x.g.Only, s.id))
}

// offer returns the part of a demand that a room has.
func (d *demand) offer(r *room) Resources {
	gpus := int64(r.whole) * WholeGPU
	if d.part > 0 {
		gpus = max(gpus, int64(r.part))
	}
	return Resources{MilliCPU: r.cpu, MemoryBytes: r.mem, MilliGPU: gpus}
}

// lackOf returns the largest missing fraction of a requested amount, in billionths and rounded up, so that it is 0 only
// if nothing is missing.
func lackOf(asked, has Resources) int64 {
	const whole = 1_000_000_000
	lack := int64(0)
	for _, of := range [][2]int64{{asked.MilliCPU, has.MilliCPU}, {asked.MemoryBytes, has.MemoryBytes},
		{asked.MilliGPU, has.MilliGPU}} {
		if of[0] > of[1] {
			lack = max(lack, Scaled(of[0]-of[1], whole, of[0]))
		}
	}
	return lack
}

// words returns the requested and the present amounts of the missing resources: "64 CPUs asked, n3 has 32".
func (n *Nearest) words(split Split) string {
	var asked, has []string
	add := func(wanted, there int64, noun string, write func(int64) string) {
		if wanted <= there {
			return
		}
		if text := write(wanted); noun != "" && text != "1" {
			asked = append(asked, text+" "+noun+"s")
		} else {
			asked = append(asked, strings.TrimSpace(text+" "+noun))
		}
		has = append(has, write(there))
	}
	add(n.Asked.MilliGPU, n.Has.MilliGPU, "GPU", decimal)
	add(n.Asked.MilliCPU, n.Has.MilliCPU, "CPU", decimal)
	add(n.Asked.MemoryBytes, n.Has.MemoryBytes, "", bytes)
	each := ""
	if split != SplitNone && n.Asked.MilliGPU > 0 {
		each = " for each GPU"
	}
	return strings.Join(asked, " and ") + " asked" + each + ", " + string(n.Node) + " has " + strings.Join(has, " and ")
}

// WayOut returns a suggestion for a gang that no known nodes can hold, by the cause.
func (f *Tree) WayOut(g Gang, r *Refusal) string {
	const later = "or allow it to wait for nodes that join later"
	switch r.Cause {
	case NoSuchLevel:
		return "known topology levels: " + listed(f.Levels())
	case NoMatch:
		if f.isEmpty() {
			return "start synapse-node on a node, " + later
		}
		if f.speaks() < g.Vocabulary {
			return "upgrade synapse-node on the nodes, " + later
		}
		if !f.accepted(g.Account) || r.Unmet == g.Account.unmatched() {
			return g.Account.advice() + ", " + later
		}
		if r.Unmet != "" && r.Unmet == g.withoutGPUs() {
			return "ask for no GPU, " + later
		}
		return f.names(&g) + ": choose one of them, " + later
	case Senseless:
		return ""
	}
	if nobody := f.Unknown(&g); nobody != "" {
		return nobody + ": " + f.names(&g) + ", " + later
	}
	switch {
	case len(g.Only) > 0:
		return "ask for less, or name more nodes, " + later
	case r.Near.Node != "":
		return "ask for less in a task, " + later
	case r.Level != "":
		return "ask for less, or for a coarser level than one " + r.Level + ", " + later
	}
	return "ask for less, " + later
}

// unmet returns the part of a gang's selector that no node fulfils.
func (f *Tree) unmet(g *Gang) string {
	if nobody := f.Unknown(&Gang{Only: g.Only}); nobody != "" &&
		!slices.ContainsFunc(g.Only, func(id NodeID) bool { return f.seats[id] != nil }) {
		return nobody
	}
	if f.isEmpty() {
		return noNode
	}
	if f.speaks() < g.Vocabulary {
		return "no node agent is new enough to run it"
	}
	if !f.accepted(g.Account) {
		return g.Account.words()
	}
	var parts, alone []string // alone has the parts that no node fulfils, even without the others
	add := func(part string, has func(kind) bool) {
		parts = append(parts, part)
		if !slices.ContainsFunc(f.kinds.all, func(k kind) bool { return k.members > 0 && has(k) }) {
			alone = append(alone, part)
		}
	}
	if g.GPUType != "" {
		add("GPUs of type "+g.GPUType, func(k kind) bool { return k.gpuType == g.GPUType })
	}
	for _, l := range g.Selector {
		add(l.String(), func(k kind) bool { return slices.Contains(k.labels, l) })
	}
	switch {
	case len(alone) > 0:
		return "no node has " + strings.Join(alone, " or ")
	case len(g.Only) > 0 && len(parts) > 0:
		return "no named node has " + strings.Join(parts, " and ")
	case len(parts) > 1:
		return "no node has " + strings.Join(parts, " and ") + " together"
	}
	if g.Account.Name != "" {
		return g.Account.unmatched()
	}
	return cmp.Or(g.withoutGPUs(), "no node matches")
}

// withoutGPUs returns a text if the gang requests GPUs and none of its nodes has any. It is the last reason to check.
func (g *Gang) withoutGPUs() string {
	switch {
	case g.Each.MilliGPU+g.Total.MilliGPU == 0:
		return ""
	case len(g.Only) > 0:
		return "no named node has a GPU"
	case len(g.Selector) > 0:
		return "no node with " + g.Selector[0].String() + " has a GPU"
	}
	return "no node has a GPU"
}

// noNode says why a gang fits nowhere in a cluster without nodes.
const noNode = "no node has joined the cluster"

// isEmpty reports whether no node is known.
func (f *Tree) isEmpty() bool {
	return !slices.ContainsFunc(f.kinds.all, func(k kind) bool { return k.members > 0 })
}

// speaks returns the newest vocabulary of any agent.
func (f *Tree) speaks() (newest int32) {
	for i := range f.kinds.all {
		if k := &f.kinds.all[i]; k.members > 0 {
			newest = max(newest, k.speaks)
		}
	}
	return newest
}

// Unknown lists the nodes that a gang names or excludes and that do not exist, or returns "".
func (f *Tree) Unknown(g *Gang) string {
	var names []string
	for _, id := range slices.Concat(g.Only, g.Exclude) {
		if f.seats[id] == nil && !slices.Contains(names, string(id)) {
			names = append(names, string(id))
		}
	}
	if names == nil {
		return ""
	}
	return "no node is named " + listed(names)
}

// names lists the valid values for each unknown name in the gang's request.
func (f *Tree) names(g *Gang) string {
	types, keys, values := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	for i := range f.kinds.all {
		k := &f.kinds.all[i]
		if k.members == 0 {
			continue
		}
		if k.gpuType != "" {
			types[k.gpuType] = true
		}
		for _, l := range k.labels {
			if l.Key != NetworkKey && l.Key != SecretKey {
				keys[l.Key] = true
			}
			if values[l.Key] == nil {
				values[l.Key] = map[string]bool{}
			}
			values[l.Key][l.Value] = true
		}
	}
	var parts []string
	if g.GPUType != "" && !types[g.GPUType] {
		parts = append(parts, theseAre("GPU types", types))
	}
	for _, l := range g.Selector {
		switch {
		case l.Key == NetworkKey && !values[l.Key][l.Value]:
			parts = append(parts, theseAre("task networks", values[l.Key]))
		case l.Key == SecretKey && !values[l.Key][l.Value]:
			parts = append(parts, theseAre("ways to give secrets to tasks", values[l.Key]))
		case l.Key == NetworkKey, l.Key == SecretKey:
		case !keys[l.Key]:
			parts = append(parts, theseAre("labels", keys))
		case !values[l.Key][l.Value]:
			parts = append(parts, theseAre("values of "+l.Key, values[l.Key]))
		}
	}
	if f.Unknown(g) != "" {
		machines := map[string]bool{}
		for id := range f.seats { //order: they are sorted
			machines[string(id)] = true
		}
		parts = append(parts, theseAre("nodes", machines))
	}
	if parts == nil {
		return "no single node has all of them"
	}
	return strings.Join(slices.Compact(parts), "; ")
}

func theseAre(what string, names map[string]bool) string {
	if len(names) == 0 {
		return "there are no " + what
	}
	return "known " + what + ": " + listed(slices.Sorted(maps.Keys(names)))
}
