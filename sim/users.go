package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file sets the accounts as which simulated nodes run jobs. A node reports its accounts to its leader, and checks
// each task as the production agent does.

// sayUsers is the time for which a leader may plan with an earlier report, because a Hello is repeated until the
// Welcome.
const sayUsers = 30 * time.Second

// Users sets the accounts of a node from now on. nil means an earlier version, which reports nothing and accepts all.
func (w *World) Users(number int, users *messages.NodeUsers) {
	m := w.at(number)
	m.users, m.usersSince = users, w.engine.now
}

// accepts reports whether the node runs a job of an owner as a user.
func (m *machine) accepts(owner *messages.Principal, user string) bool {
	u := m.users
	if u == nil || m.unversed || user == "" || user == "root" || user == "0" {
		return true
	}
	for _, to := range u.Mapped {
		if to.Owner == owner.GetName() {
			return user == to.Account || user == to.Owner || user == strconv.Itoa(int(to.Uid))
		}
	}
	return u.Any || user == owner.GetName() && owner.GetProven() && slices.Contains(u.Own, user)
}

// checkUser fails the run if a leader starts a task as an account that the node reported as refused.
func (l *launcher) checkUser(c *messages.PrepareTask) {
	owner := &messages.Principal{Name: c.Owner, Proven: c.OwnerProven}
	if l.m.accepts(owner, c.Spec.GetUser()) || l.w.engine.now.since(l.m.usersSince) < sayUsers {
		return
	}
	l.w.violate("wire", "%s is to run a job of %s as %s, which it has said that it refuses", l.m.id, c.Owner,
		c.Spec.GetUser())
}
