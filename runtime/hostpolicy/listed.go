package hostpolicy

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file publishes the node's rules about users. The scheduler can then refuse a job at submission if no node would
// run it. The file reads the node's account files in the same way as this program looks up accounts. A new account is
// listed within relistEvery.

// relistEvery is the interval at which the account files are read.
const relistEvery = 10 * time.Second

// Lister lists the accounts that may run jobs on this node.
type Lister struct {
	users Users
	now   atomic.Pointer[messages.NodeUsers]
}

// NewLister makes a Lister and lists the accounts for the first time.
func NewLister(u Users) *Lister {
	l := &Lister{users: u}
	l.look()
	return l
}

// Now returns the latest list. It is the same message until it changes.
func (l *Lister) Now() *messages.NodeUsers { return l.now.Load() }

// Begin updates the list regularly until the caller calls end.
func (l *Lister) Begin() (end func()) {
	done := make(chan struct{})
	go func() {
		for rests(done) {
			l.look()
		}
	}()
	return func() { close(done) }
}

// rests waits for the next update. It returns false when done is closed.
func rests(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	case <-time.After(relistEvery):
		return true
	}
}

// look lists the accounts again. The files are small, so it reads them each time. It stores the list only if it has
// changed.
func (l *Lister) look() {
	if fresh := l.users.Listed(); !proto.Equal(fresh, l.now.Load()) {
		l.now.Store(fresh)
	}
}

// Listed returns the node's rules about users. An agent that is not root runs all jobs as its own user. The message
// cannot express this, so it permits every user.
func (u Users) Listed() *messages.NodeUsers {
	said := &messages.NodeUsers{Any: u.Any || !u.Proven || os.Geteuid() != 0}
	if !u.Proven {
		return said
	}
	for _, owner := range slices.Sorted(maps.Keys(u.Owners)) {
		mapped := &messages.MappedUser{Owner: owner, Account: u.Owners[owner]}
		uid, err := strconv.ParseUint(cmp.Or(number(mapped.Account), mapped.Account), 10, 32)
		if err == nil {
			mapped.Uid = uint32(uid)
		}
		said.Mapped = append(said.Mapped, mapped)
	}
	if !said.Any {
		said.Own = u.ownAccounts()
	}
	if said.More = len(said.Own) > messages.MaxAccounts; said.More {
		said.Own = said.Own[:messages.MaxAccounts]
	}
	return said
}

// ownAccounts returns the accounts that run jobs of owners with the same name, in order.
func (u Users) ownAccounts() (names []string) {
	denied := u.readDenied()
	seen := map[string]bool{}
	err := u.eachLine(passwdFile, func(fields []string) {
		l, ok := localOf(fields)
		if !ok || seen[l.name] {
			return
		}
		if seen[l.name] = true; len(l.name) <= messages.MaxIDBytes && u.accountDenied(l, denied) == "" {
			names = append(names, l.name)
		}
	})
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}
