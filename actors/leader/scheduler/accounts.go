package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns which account of the machines a job names. The user `me` is the account with the owner's name: it is
// written into the record at submit, so that agents of earlier versions see a name like any other. Machines decide
// whether they run a job as an account, and say beforehand how: a job that every machine would refuse is refused at
// submit, and one that waits already waits with that reason.

// asOwner is a spec in which `me` is the owner's name.
func asOwner(by *messages.Principal, spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	id, group, grouped := strings.Cut(spec.GetUser(), ":")
	if id != messages.UserMe {
		return spec, nil
	}
	if why := notMe(by); why != "" {
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec.user", why,
			"name an account with --user, or leave --user out, so that the job has a uid of its own")
	}
	spec = actors.CopyOf(spec)
	if spec.User = by.GetName(); grouped {
		spec.User += ":" + group
	}
	return spec, nil
}

// notMe is why an owner's name can be no account; empty: it can. A machine could take a number, or a name with a colon,
// for another account, and it takes root for root of the job's own container.
func notMe(by *messages.Principal) string {
	name := by.GetName()
	_, err := strconv.ParseUint(name, 10, 64)
	switch {
	case by.Known() == "":
		return messages.UserMe + " is the account with the owner's name, and without TLS a job has no known owner"
	case name == "root":
		return "you are root, and " + messages.UserMe + " is never root"
	case err == nil || strings.Contains(name, ":") || name == messages.UserMe:
		return "your name is " + name + ", which can be no account"
	}
	return ""
}

// gangFor is what a job asks for, with the account that it names. Where every machine accepts that account it does not
// matter where the gang goes, and it is planned like a gang without one.
func (s *Scheduler) gangFor(owner *messages.Principal, spec *messages.JobSpec) topology.Gang {
	gang := messages.GangOf(spec)
	if as := messages.AccountOf(owner, spec); !s.view.Fabric().AcceptedEverywhere(as) {
		gang.Account = as
	}
	return gang
}

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
