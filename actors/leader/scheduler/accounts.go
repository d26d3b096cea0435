package scheduler

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how machines decide about accounts, as the Scheduler knows and shows it.

// decides notes how a machine decides about accounts, and reports whether no other decides in that way: then every job
// that waits has to look again where it may go.
func (s *Scheduler) decides(m *machine, u *messages.NodeUsers) (first bool) {
	key := ""
	if u != nil {
		key = "u" + string(messages.Bytes(u))
	}
	if m.users == key {
		return false
	}
	if s.rules[m.users]--; s.rules[m.users] <= 0 {
		delete(s.rules, m.users)
	}
	m.users, m.accounts = key, accountsOf(u)
	m.usersShown, m.usersNamed = usersShown(u), usersNamed(u)
	if key == "" {
		return false
	}
	s.rules[key]++
	return s.rules[key] == 1
}

func accountsOf(u *messages.NodeUsers) *topology.Accounts {
	if u == nil {
		return nil
	}
	a := &topology.Accounts{Any: u.Any, More: u.More, Own: slices.Sorted(slices.Values(u.Own))}
	for _, m := range u.Mapped {
		a.Mapped = append(a.Mapped, topology.MappedAccount{
			Owner: m.GetOwner(), Account: m.GetAccount(), UID: strconv.FormatUint(uint64(m.GetUid()), 10),
		})
	}
	slices.SortFunc(a.Mapped, func(x, y topology.MappedAccount) int { return cmp.Compare(x.Owner, y.Owner) })
	return a
}

// maxUsersShown limits the accounts, and the mapped owners, that a reply about one machine names.
const maxUsersShown = 16

// usersShown is how a machine decides about users, as people see it in lists of machines; nil: it did not say.
func usersShown(u *messages.NodeUsers) *messages.NodeUsers {
	if u == nil {
		return nil
	}
	return &messages.NodeUsers{
		Any: u.Any, More: u.More, OwnCount: int32(len(u.Own)), MappedCount: int32(len(u.Mapped)),
	}
}

// usersNamed adds the first names, for a reply about one machine.
func usersNamed(u *messages.NodeUsers) *messages.NodeUsers {
	named := usersShown(u)
	if named != nil {
		named.Own = u.Own[:min(len(u.Own), maxUsersShown)]
		named.Mapped = u.Mapped[:min(len(u.Mapped), maxUsersShown)]
	}
	return named
}
