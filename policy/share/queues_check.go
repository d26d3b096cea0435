package share

// This file checks a configuration of queues for contradictions. An error names the queue and the key, so that the
// reader of the file can add line and column.

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxQueues is the maximum number of queues.
	MaxQueues = 2_000
	// MaxWeight is the maximum weight.
	MaxWeight = 1_000_000
	// MaxAmount is the maximum amount. Sums are cut to twice this value, and so fit into 64 bits.
	MaxAmount = 1 << 60
)

// QueueError is one error in a configuration.
type QueueError struct {
	Queue int    // index in the list; negative: not about one queue
	Key   string // as in the file: parent, quota.gpu
	Text  string
	Hint  string
	// Word is an unknown word if that is the error, and Words are the valid ones, for a suggestion.
	Word  string
	Words []string
}

// Error returns the complete error on one line.
func (e *QueueError) Error() string {
	text := e.Key + ": " + e.Text
	if e.Queue >= 0 {
		text = fmt.Sprintf("queues[%d].%s", e.Queue, text)
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// queuesCheck collects the errors.
type queuesCheck struct {
	*Queues
	at     map[string]int // first index of each name
	parent []int          // negative: none
	errors []*QueueError
}

// Check returns all errors, in the order of the configuration.
func (q *Queues) Check() []*QueueError {
	c := &queuesCheck{Queues: q, at: map[string]int{}, parent: make([]int, len(q.Queues))}
	if len(q.Queues) > MaxQueues {
		c.say(-1, "queues", "", "are %d, and at most %d are allowed", len(q.Queues), MaxQueues)
		return c.errors
	}
	c.names()
	if len(c.errors) == 0 { // the following checks need valid parents
		c.circles()
	}
	if len(c.errors) == 0 {
		for i := range q.Queues {
			c.amounts(i)
			c.children(i)
			c.ranges(i)
			c.owners(i)
		}
	}
	return c.errors
}

func (c *queuesCheck) say(queue int, key, hint, format string, args ...any) {
	c.errors = append(c.errors, &QueueError{Queue: queue, Key: key, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// names checks the names and finds the parent of each queue.
func (c *queuesCheck) names() {
	if len(c.Queues.Queues) == 0 {
		c.say(-1, "queues", "", "has no queue")
	}
	for i := range c.Queues.Queues {
		name := c.Queues.Queues[i].Name
		first, twice := c.at[name]
		switch {
		case name == "":
			c.say(i, "name", "", "is missing")
		case twice:
			c.say(i, "name", "", "%q is already the name of queues[%d]", name, first)
		default:
			c.at[name] = i
		}
	}
	for i := range c.Queues.Queues {
		c.parent[i] = -1
		if parent := c.Queues.Queues[i].Parent; parent != "" {
			c.parent[i] = c.known(i, "parent", parent)
		}
	}
	if c.Default != "" {
		c.known(-1, "default", c.Default)
	}
}

// known returns the index of a named queue.
func (c *queuesCheck) known(queue int, key, name string) int {
	at, ok := c.at[name]
	if !ok {
		c.errors = append(c.errors, &QueueError{
			Queue: queue, Key: key, Text: fmt.Sprintf("unknown queue %q", name), Word: name, Words: c.Names(),
		})
		return -1
	}
	return at
}

// circles reports each cycle once, at the first of its queues.
func (c *queuesCheck) circles() {
	const unseen, open, over = 0, 1, 2
	state := make([]int, len(c.parent))
	for i := range c.parent {
		var path []int
		at := i
		for at >= 0 && state[at] == unseen {
			state[at] = open
			path = append(path, at)
			at = c.parent[at]
		}
		if at >= 0 && state[at] == open {
			circle := path[slices.Index(path, at):]
			first := slices.Min(circle)
			names := []string{c.Queues.Queues[first].Name}
			for next := c.parent[first]; next != first; next = c.parent[next] {
				names = append(names, c.Queues.Queues[next].Name)
			}
			names = append(names, names[0])
			c.say(first, "parent", "remove the parent of one of them", "forms a cycle: %s", strings.Join(names,
				" below "))
		}
		for _, p := range path {
			state[p] = over
		}
	}
}

// amounts compares the quota of a queue with its limits and those of its ancestors.
func (c *queuesCheck) amounts(i int) {
	q := &c.Queues.Queues[i]
	for _, list := range []struct {
		key     string
		amounts Amounts
	}{{"quota", q.Quota}, {"limit", q.Limit}, {"perOwner", q.Owner.Amounts}} {
		for _, a := range list.amounts {
			if a.Amount < 0 || a.Amount > MaxAmount {
				c.say(i, list.key+"."+a.Name, "", "is out of range")
			}
		}
	}
	for _, a := range q.Quota {
		for at := i; at >= 0; at = c.parent[at] {
			limit, ok := c.Queues.Queues[at].Limit.Of(a.Name)
			switch {
			case !ok || limit >= a.Amount:
				continue
			case at == i:
				c.say(i, "limit."+a.Name, "", "is less than the quota")
			default:
				c.say(i, "quota."+a.Name, "", "is greater than the limit of %s",
					c.Queues.Queues[at].Name)
			}
			break
		}
	}
}

// children compares the quota of a queue with the sum of its descendants' quotas.
func (c *queuesCheck) children(i int) {
	for _, a := range c.Queues.Queues[i].Quota {
		sum, of := int64(0), []string(nil)
		for below := range c.Queues.Queues {
			if quota, ok := c.Queues.Queues[below].Quota.Of(a.Name); ok && c.assures(below, a.Name) == i {
				sum = min(sum+quota, 2*MaxAmount)
				of = append(of, c.Queues.Queues[below].Name)
			}
		}
		if sum > a.Amount {
			c.say(i, "quota."+a.Name, "raise it, or lower the quotas below it",
				"is less than the sum of the quotas below it: %s", strings.Join(of, ", "))
		}
	}
}

// assures returns the nearest ancestor with a quota of this amount, or -1.
func (c *queuesCheck) assures(below int, name string) int {
	for at := c.parent[below]; at >= 0; at = c.parent[at] {
		if _, ok := c.Queues.Queues[at].Quota.Of(name); ok {
			return at
		}
	}
	return -1
}

// ranges checks the numbers of a queue, including inherited values.
func (c *queuesCheck) ranges(i int) {
	q := &c.Queues.Queues[i]
	if q.Weight != nil && (*q.Weight < 1 || *q.Weight > MaxWeight) {
		hint := ""
		if *q.Weight == 0 {
			hint = "use `limit: {gpu: 0}` for a queue that gets nothing"
		}
		c.say(i, "weight", hint, "%d is outside 1 to %d", *q.Weight, MaxWeight)
	}
	least := func(key string, n *int64) {
		if n != nil && *n < 0 {
			c.say(i, key, "", "must not be negative")
		}
	}
	least("perOwner.nodes", q.Owner.Machines)
	least("perOwner.running", q.Owner.Running)
	least("perOwner.waiting", q.Owner.Waiting)
	least("preemption.minRuntime", q.Preemption.MinRun)
	if n := q.Preemption.MostGrace; n != nil && *n < 1_000_000 {
		c.say(i, "preemption.maxGrace", "use 1s or more", "must be greater than 0")
	}
	if n := q.Idle.After; n != nil && *n < MinIdleAfter {
		c.say(i, "idle.after", "use 1m or more", "must be at least 1m, because nodes measure only every 10s")
	}
	most := inherited(c, i, func(q *QueueSpec) *int64 { return q.MostLimit })
	usual := inherited(c, i, func(q *QueueSpec) *int64 { return q.DefaultLimit })
	if most != nil && usual != nil && *usual > *most && (q.MostLimit != nil || q.DefaultLimit != nil) {
		c.say(i, "timeLimit", "", "default is greater than the maximum")
	}
	highest := inherited(c, i, func(q *QueueSpec) *int32 { return q.MostPriority })
	normal := inherited(c, i, func(q *QueueSpec) *int32 { return q.DefaultPriority })
	if highest != nil && normal != nil && *normal > *highest && (q.MostPriority != nil || q.DefaultPriority != nil) {
		c.say(i, "priority", "", "default is greater than the maximum")
	}
}

// inherited returns the effective value of a queue: its own, or that of the nearest ancestor.
func inherited[T any](c *queuesCheck, i int, of func(*QueueSpec) *T) *T {
	for at := i; at >= 0; at = c.parent[at] {
		if own := of(&c.Queues.Queues[at]); own != nil {
			return own
		}
	}
	return nil
}
