package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns queues that are for some people only: their lists of owners, which the seed draws for some of the
// shared worlds, and who is in which group. It spends no chance of other draws: worlds without lists are as they were.

// The people of a shared world, as whose draws them, and their one group.
const (
	people  = 4
	oneTeam = "ml"
	inTeam  = "owner-1"
)

// groupsOf are the groups that the gateway says somebody is in.
func (w *World) groupsOf(owner *messages.Principal) []string {
	if w.sharing.listed && owner.GetName() == inTeam {
		return []string{oneTeam}
	}
	return nil
}

// isAdmin reports whether the gateway says that somebody is an admin.
func (w *World) isAdmin(owner *messages.Principal) bool {
	return w.sharing.listed && owner.GetName() == "owner-3"
}

// drawOwners gives some queues lists of owners, in some worlds.
func (w *World) drawOwners(q *messages.Queues) {
	s := w.sharing.owners
	if w.sharing.listed = s.chance(0.3); !w.sharing.listed {
		return
	}
	for _, one := range q.Queues {
		if s.chance(0.4) {
			one.Owners = w.drawnList()
		}
	}
}

// changeOwners has somebody find other lists better.
func (w *World) changeOwners(q *messages.Queues) {
	if s := w.sharing.owners; w.sharing.listed && s.chance(0.7) {
		for range 1 + s.below(3) {
			q.Queues[s.below(len(q.Queues))].Owners = w.drawnList()
		}
	}
}

// drawnList has somebody, and often the team in place of the one who is in it.
func (w *World) drawnList() (list []string) {
	s := w.sharing.owners
	for i := range people {
		switch name := "owner-" + strconv.Itoa(i); {
		case !s.chance(0.6):
		case name == inTeam && s.chance(0.7):
			list = append(list, messages.GroupPrefix+oneTeam)
		default:
			list = append(list, name)
		}
	}
	if list == nil {
		return []string{"owner-0"}
	}
	return list
}

// former are queues that the store had until some time; nil: nobody had described any.
type former struct {
	queues *messages.Queues
	until  instant
}

// queuesWere enters that the store's queues are followed by others.
func (w *World) queuesWere(q *messages.QueuesRecord) {
	w.sharing.former = append(w.sharing.former, former{q.GetQueues(), w.engine.now})
}

// queuesSince are the queues that the store has, and those that it had at some time since.
func (w *World) queuesSince(since instant) []*messages.Queues {
	all := []*messages.Queues{w.books.queues.GetQueues()}
	for _, f := range w.sharing.former {
		if f.until >= since {
			all = append(all, f.queues)
		}
	}
	return all
}

// admits reports whether queues have an owner on each list that holds for a queue. It asks no code of the cluster.
func (w *World) admits(q *messages.Queues, queue string, owner *messages.Principal) bool {
	if queue == "" {
		queue = q.GetDefault()
	}
	for queue != "" {
		at := slices.IndexFunc(q.GetQueues(), func(one *messages.QueueSpec) bool { return one.Name == queue })
		if at < 0 {
			return true
		}
		one := q.Queues[at]
		has := len(one.Owners) == 0 || slices.Contains(one.Owners, owner.GetName())
		for _, group := range w.groupsOf(owner) {
			has = has || slices.Contains(one.Owners, messages.GroupPrefix+group)
		}
		if !has {
			return w.isAdmin(owner)
		}
		queue = one.Parent
	}
	return true
}

// orderOf is the order that a request belongs to.
func (c *client) orderOf(requestID string) *Order {
	n, err := strconv.Atoi(strings.TrimPrefix(requestID, "request-"))
	if err != nil || n < 1 || n > len(c.jobs) {
		return nil
	}
	return c.jobs[n-1]
}

// slowWord is for how long a leader may go by queues that the store has no more: it has yet to hear that the others are
// on disk.
const slowWord = time.Minute
