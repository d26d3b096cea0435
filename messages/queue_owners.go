package messages

import (
	"slices"
	"strings"
)

// This file owns who may use a queue. The owners of a queue are a list of names and groups. A queue without a list
// admits everybody whom the queues above it admit: a list lower down can only narrow what stands above it.

// GroupPrefix begins an entry of a queue's owners that names a group. Without it the entry is the name of an owner.
const GroupPrefix = "group:"

const (
	maxQueueOwners = 1_000 // as policy has it
	// maxGroups bounds the groups of one caller. A token of 16 KiB cannot hold as many.
	maxGroups = 4_096
)

// Admits reports whether the queue's own list has an owner, or a group that the owner is in. A name never counts as a
// group, whatever it begins with.
func (x *QueueSpec) Admits(owner string, groups []string) bool {
	list := x.GetOwners()
	return len(list) == 0 || slices.ContainsFunc(list, func(entry string) bool {
		if group, is := strings.CutPrefix(entry, GroupPrefix); is {
			return slices.Contains(groups, group)
		}
		return entry == owner
	})
}

// Bars is the first queue, from this one upwards, whose list has neither an owner nor a group of that owner; nil: the
// owner may use the queue.
func (t *QueueTerms) Bars(owner string, groups []string) *QueueSpec {
	for _, q := range t.above {
		if !q.Admits(owner, groups) {
			return q
		}
	}
	return nil
}

// OpenTo are the names of the first queues, in the order of the description, that an owner may use: most at most.
func (x *Queues) OpenTo(owner string, groups []string, most int) []string {
	open, _ := x.sorted(owner, groups)
	return open[:min(len(open), most)]
}

// BarredTo are the names of the queues, in the order of the description, that an owner may not use.
func (x *Queues) BarredTo(owner string, groups []string) []string {
	_, barred := x.sorted(owner, groups)
	return barred
}

// sorted are the names of the queues that an owner may use, and of those that the owner may not.
func (x *Queues) sorted(owner string, groups []string) (open, barred []string) {
	bars, parent := map[string]bool{}, map[string]string{}
	for _, q := range x.GetQueues() {
		bars[q.GetName()], parent[q.GetName()] = !q.Admits(owner, groups), q.GetParent()
	}
	for _, q := range x.GetQueues() {
		at := q.GetName()
		for steps := 0; at != "" && !bars[at] && steps < len(bars); steps++ {
			at = parent[at]
		}
		if at == "" {
			open = append(open, q.GetName())
		} else {
			barred = append(barred, q.GetName())
		}
	}
	return open, barred
}

// owners checks the owners of a queue, as far as a single entry can be judged here.
func owners(list []string) error {
	return entries("owners", list, maxQueueOwners, len(GroupPrefix)+MaxValueBytes)
}

// groups checks the groups of who asks.
func groups(list []string) error { return entries("groups", list, maxGroups, MaxValueBytes) }

func entries(field string, list []string, most, bytes int) error {
	err := between(field, int64(len(list)), 0, int64(most))
	for i, entry := range list {
		err = first(err, in(field, at(i, given("", entry, bytes))))
	}
	return err
}

// AsGroups are the groups of a token that an entry of a queue's owners can name. The others are left out.
func AsGroups(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(g string) bool {
		return given("", g, MaxValueBytes) != nil || strings.ContainsFunc(g, Steers)
	})
	return all[:min(len(all), maxGroups)]
}
