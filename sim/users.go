package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns as which accounts simulated machines run jobs. A machine says it to its leader, and holds each task
// against it as the production agent does.

// sayUsers is how long a leader may plan with what a machine said before: a Hello is said again until it is welcomed.
const sayUsers = 30 * time.Second

// Users has a machine decide from now on as which accounts it runs jobs; nil: as an earlier version, it says nothing
// and takes all.
func (w *World) Users(number int, users *messages.NodeUsers) {
	m := w.at(number)
	m.users, m.usersSince = users, w.engine.now
}

// accepts reports whether the machine runs a job of an owner as a user.
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

// checkUser breaks the run if a leader has a machine run a task as an account that the machine said it refuses.
func (l *launcher) checkUser(c *messages.PrepareTask) {
	owner := &messages.Principal{Name: c.Owner, Proven: c.OwnerProven}
	if l.m.accepts(owner, c.Spec.GetUser()) || l.w.engine.now.since(l.m.usersSince) < sayUsers {
		return
	}
	l.w.violate("wire", "%s is to run a job of %s as %s, which it has said that it refuses", l.m.id, c.Owner,
		c.Spec.GetUser())
}
