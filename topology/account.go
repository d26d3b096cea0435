package topology

// This file owns which machines may run a gang as the account that it names: a machine says as which of its accounts it
// runs jobs, and a gang goes to machines that would accept its own. The machine decides again when the gang arrives.

import (
	"cmp"
	"slices"
	"strconv"
)

// Account is the account of the machines that a gang names, and the owner who asks for it. The zero value is a gang
// that every machine accepts, because it names no account.
type Account struct {
	Owner, Name string
	// Proven: the cluster knows the owner by a certificate or token, so that the name counts as an account's.
	Proven bool
}

// Accounts is how a machine decides about accounts. Nil accepts every one, as agents of earlier versions do.
type Accounts struct {
	Any    bool            // every account, for owners without one of their own in Mapped
	Own    []string        // sorted: accounts for proven owners of the same name
	More   bool            // Own does not list all of them
	Mapped []MappedAccount // sorted by owner
}

// MappedAccount is the one account as which a machine runs an owner's jobs.
type MappedAccount struct{ Owner, Account, UID string }

// Accept reports whether a machine runs gangs under an account.
func (a *Accounts) Accept(as Account) bool {
	if a == nil || as.Name == "" {
		return true
	}
	i, mapped := slices.BinarySearchFunc(a.Mapped, as.Owner, func(m MappedAccount, owner string) int {
		return cmp.Compare(m.Owner, owner)
	})
	switch {
	case mapped:
		return as.Name == as.Owner || as.Name == a.Mapped[i].Account || as.Name == a.Mapped[i].UID
	case a.Any:
		return true
	case !as.Proven || as.Name != as.Owner:
		return false
	}
	_, own := slices.BinarySearch(a.Own, as.Name)
	return own || a.More
}

// appendTo writes the rules so that different ones give different texts.
func (a *Accounts) appendTo(b []byte) []byte {
	if a == nil {
		return b
	}
	b = strconv.AppendBool(append(b, '#'), a.Any)
	b = strconv.AppendBool(b, a.More)
	b = appendNames(b, slices.Clone(a.Own))
	for _, m := range a.Mapped {
		b = append(b, '>')
		for _, text := range []string{m.Owner, m.Account, m.UID} {
			b = append(strconv.AppendInt(b, int64(len(text)), 10), ':')
			b = append(b, text...)
		}
	}
	return b
}

// accepted reports whether some machine that is here runs gangs under an account.
func (f *Fabric) accepted(as Account) bool {
	for i := range f.kinds.all {
		if k := &f.kinds.all[i]; k.members > 0 && k.accounts.Accept(as) {
			return true
		}
	}
	return false
}

// AcceptedEverywhere reports whether every machine that is here runs gangs under an account. Such a gang is placed as
// one that names no account.
func (f *Fabric) AcceptedEverywhere(as Account) bool {
	for i := range f.kinds.all {
		if k := &f.kinds.all[i]; k.members > 0 && !k.accounts.Accept(as) {
			return false
		}
	}
	return true
}

// words says that no machine accepts the account.
func (a Account) words() string {
	switch {
	case a.Name == a.Owner && !a.Proven:
		return "user: no node runs jobs as " + a.Name + ", because nothing that counts there proves that the owner is " +
			a.Owner
	case a.Name == a.Owner:
		return "user: no node has an account " + a.Name + " that jobs may run as"
	}
	return "user: no node runs jobs of " + a.Owner + " as " + a.Name
}

// unmatched returns why a gang cannot start whose account is accepted only by nodes that do not match it.
func (a Account) unmatched() string {
	return "no matching node runs jobs of " + a.Owner + " as " + a.Name
}

// advice returns the fix for a user whose account no node accepts.
func (a Account) advice() string {
	return "leave --user out, so that the job gets a separate uid; or ask the node's administrator to map " + a.Owner +
		" to an account in users.owners of the node's policy"
}
