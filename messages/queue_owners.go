package messages

import (
	"slices"
	"strings"
)

// This file decides who may use a queue. The owners of a queue are a list of names and groups. A queue without a list
// admits every owner that its ancestors admit. A list can only restrict the lists of the ancestors.

// GroupPrefix marks an entry of a queue's owners as the name of a group. An entry without the prefix is the name of an
// owner.
const GroupPrefix = "group:"

const (
	maxQueueOwners = 1_000 // same as in policy/share
	// maxGroups limits the groups of one caller. A token of 16 KiB cannot hold that many groups.
	maxGroups = 4_096
)

// Admits reports whether the queue's own list contains the owner or one of the owner's groups. The name of an owner
// never matches a group.
func (x *QueueSpec) Admits(owner string, groups []string) bool {
	list := x.GetOwners()
	return len(list) == 0 || slices.ContainsFunc(list, func(entry string) bool {
		if group, is := strings.CutPrefix(entry, GroupPrefix); is {
			return slices.Contains(groups, group)
		}
		return entry == owner
	})
}

// Bars returns the first queue, from this one upwards, whose list excludes the owner. It returns nil if the owner may
// use the queue.
func (t *QueueTerms) Bars(owner string, groups []string) *QueueSpec {
	for _, q := range t.above {
		if !q.Admits(owner, groups) {
			return q
		}
	}
	return nil
}

// OpenTo returns the names of at most most queues that an owner may use, in the order of the configuration.
func (x *Queues) OpenTo(owner string, groups []string, most int) []string {
	open, _ := x.sorted(owner, groups)
	return open[:min(len(open), most)]
}

// BarredTo returns the names of the queues that an owner may not use, in the order of the configuration.
func (x *Queues) BarredTo(owner string, groups []string) []string {
	_, barred := x.sorted(owner, groups)
	return barred
}

// sorted returns the names of the queues that an owner may use, and of the queues that the owner may not use.
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

// owners checks the syntax of a queue's owners.
func owners(list []string) error {
	return entries("owners", list, maxQueueOwners, len(GroupPrefix)+MaxValueBytes)
}

// groups checks the groups of the caller.
func groups(list []string) error { return entries("groups", list, maxGroups, MaxValueBytes) }

func entries(field string, list []string, most, bytes int) error {
	err := between(field, int64(len(list)), 0, int64(most))
	for i, entry := range list {
		err = first(err, in(field, at(i, given("", entry, bytes))))
	}
	return err
}

// AsGroups returns the groups of a token that can occur in the owners of a queue. It omits the others.
func AsGroups(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(g string) bool {
		return given("", g, MaxValueBytes) != nil || strings.ContainsFunc(g, Steers)
	})
	return all[:min(len(all), maxGroups)]
}
