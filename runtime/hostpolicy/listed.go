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

// This file owns what a machine says beforehand of how it decides about users, so that a job which no machine would
// run is refused when it is submitted. It reads the machine's files of accounts, as this program looks accounts up;
// one that comes later is listed within relistEvery.

// relistEvery is how often the files are looked at.
const relistEvery = 10 * time.Second

// Lister knows as which accounts jobs run here.
type Lister struct {
	users Users
	now   atomic.Pointer[messages.NodeUsers]
}

// NewLister lists the accounts for the first time.
func NewLister(u Users) *Lister {
	l := &Lister{users: u}
	l.look()
	return l
}

// Now returns the last list: the same message until it changes.
func (l *Lister) Now() *messages.NodeUsers { return l.now.Load() }

// Begin lists again whenever the files change, until the answer is called.
func (l *Lister) Begin() (end func()) {
	done := make(chan struct{})
	go func() {
		for rests(done) {
			l.look()
		}
	}()
	return func() { close(done) }
}

// rests waits until the files are looked at again; false: that has ended.
func rests(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	case <-time.After(relistEvery):
		return true
	}
}

// look lists the accounts again. The files are small: it reads them each time, and tells nobody if nothing changed.
func (l *Lister) look() {
	if fresh := l.users.Listed(); !proto.Equal(fresh, l.now.Load()) {
		l.now.Store(fresh)
	}
}

// Listed is how jobs' users are decided here. An agent that is not root runs all jobs as itself, which this form
// cannot say: it lets each job try.
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

// ownAccounts are the accounts that jobs of owners of the same name run as, in order.
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
