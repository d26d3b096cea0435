package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file simulates queues that only some users may use. The seed draws their owner lists for some worlds with
// queues, and the groups of users. It draws from a separate source, so worlds without lists are unchanged.

// The users of a world with queues, as whose draws them, and their one group.
const (
	people  = 4
	oneTeam = "ml"
	inTeam  = "owner-1"
)

// groupsOf returns the groups of a user according to the gateway.
func (w *World) groupsOf(owner *messages.Principal) []string {
	if w.sharing.listed && owner.GetName() == inTeam {
		return []string{oneTeam}
	}
	return nil
}

// isAdmin reports whether a user is an admin according to the gateway.
func (w *World) isAdmin(owner *messages.Principal) bool {
	return w.sharing.listed && owner.GetName() == "owner-3"
}

// drawOwners gives some queues owner lists, in some worlds.
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

// changeOwners sometimes replaces the owner lists.
func (w *World) changeOwners(q *messages.Queues) {
	if s := w.sharing.owners; w.sharing.listed && s.chance(0.7) {
		for range 1 + s.below(3) {
			q.Queues[s.below(len(q.Queues))].Owners = w.drawnList()
		}
	}
}

// drawnList returns a list with one user, or often with the team instead of its member.
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

// former holds queues that the store had until some time. nil means that no queues were applied.
type former struct {
	queues *messages.Queues
	until  instant
}

// queuesWere notes that new queues replace those of the store.
func (w *World) queuesWere(q *messages.QueuesRecord) {
	w.sharing.former = append(w.sharing.former, former{q.GetQueues(), w.engine.now})
}

// queuesSince returns the queues of the store, and those that it had since an instant.
func (w *World) queuesSince(since instant) []*messages.Queues {
	all := []*messages.Queues{w.books.queues.GetQueues()}
	for _, f := range w.sharing.former {
		if f.until >= since {
			all = append(all, f.queues)
		}
	}
	return all
}

// admits reports whether an owner is on each list that applies to a queue. It uses no code of the cluster.
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

// orderOf returns the order that a request belongs to.
func (c *client) orderOf(requestID string) *Order {
	n, err := strconv.Atoi(strings.TrimPrefix(requestID, "request-"))
	if err != nil || n < 1 || n > len(c.jobs) {
		return nil
	}
	return c.jobs[n-1]
}

// slowWord is the time for which a leader may use queues that the store has replaced, because it does not know yet that
// the new ones are on disk.
const slowWord = time.Minute
