package topology

// This file decides which nodes may run a gang under the account that the gang names. Each node reports the accounts
// under which it runs jobs. The node decides again when the gang arrives.

import (
	"cmp"
	"slices"
	"strconv"
)

// Account is the account that a gang requests on nodes, with the owner of the gang. Every node accepts the zero value,
// which requests no account.
type Account struct {
	Owner, Name string
	// Proven is true if a certificate or token proves the owner, so that the owner's name counts as the name of an
	// account.
	Proven bool
}

// Accounts is the rule by which a node accepts accounts. Nil accepts every account, as agents of older versions do.
type Accounts struct {
	Any    bool            // accepts every account, for owners without an entry in Mapped
	Own    []string        // accounts for proven owners of the same name, sorted
	More   bool            // Own is incomplete
	Mapped []MappedAccount // sorted by owner
}

// MappedAccount is the one account under which a node runs an owner's jobs.
type MappedAccount struct{ Owner, Account, UID string }

// Accept reports whether the node runs gangs under an account.
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

// appendTo appends a text of the rules. Different rules have different texts.
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

// accepted reports whether at least one known node runs gangs under an account. Without any node, no account is
// refused.
func (f *Tree) accepted(as Account) bool {
	if f.isEmpty() {
		return true
	}
	for i := range f.kinds.all {
		if k := &f.kinds.all[i]; k.members > 0 && k.accounts.Accept(as) {
			return true
		}
	}
	return false
}

// AcceptedEverywhere reports whether every known node runs gangs under an account. Such a gang is placed like a gang
// without an account.
func (f *Tree) AcceptedEverywhere(as Account) bool {
	for i := range f.kinds.all {
		if k := &f.kinds.all[i]; k.members > 0 && !k.accounts.Accept(as) {
			return false
		}
	}
	return true
}

// words returns the text of a refusal because no node accepts the account.
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

// unmatched returns the text of a refusal because only nodes that do not match the gang accept its account.
func (a Account) unmatched() string {
	return "no matching node runs jobs of " + a.Owner + " as " + a.Name
}

// advice returns the fix for a user whose account no node accepts.
func (a Account) advice() string {
	return "leave --user out, so that the job gets a separate uid; or ask the node's administrator to map " + a.Owner +
		" to an account in users.owners of the node's policy"
}
