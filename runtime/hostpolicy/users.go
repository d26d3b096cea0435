package hostpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/topology"
)

// This file owns as which account of the machine a job runs. The owner of a job is a name in the cluster; accounts
// are the machine's own. They meet only where the owner's name is proven and the machine's rules say that it
// counts.

// Users decides as which users jobs may run.
type Users struct {
	From uint32 `yaml:"from"` // the least number of a user; 0: 1000
	// Owners says as which user the jobs of an owner run. Without Proven it is checked and reported but not obeyed:
	// anybody may claim to be an owner.
	Owners map[string]string `yaml:"owners"`
	// DenyGroups are groups whose members are no accounts for jobs of owners of the same name; nil: those of
	// defaultDenyGroups.
	DenyGroups []string `yaml:"denyGroups"`
	// Any lets each job name each account from From on, whoever its owner is.
	Any bool `yaml:"any"`
	// Proven is set where a certificate names the owner of a job: the machine has TLS.
	Proven bool `yaml:"-"`
	// UIDs belong to jobs that name no user.
	UIDs topology.UIDRange `yaml:"-"`
	// root is where /etc is, for tests.
	root string
}

// defaultDenyGroups are groups whose members can become root, read other users' data, or use devices directly.
var defaultDenyGroups = []string{"root", "sudo", "wheel", "docker", "lxd", "disk", "adm", "shadow", "kvm"}

// least is the least number of a user that jobs may name.
func (u Users) least() uint32 { return cmp.Or(u.From, 1000) }

// denied are the groups whose members are no accounts for jobs.
func (u Users) denied() []string {
	if u.DenyGroups == nil {
		return defaultDenyGroups
	}
	return u.DenyGroups
}

// check refuses an owner whose jobs could never run.
func (u Users) check() error {
	if slices.Contains(u.DenyGroups, "") {
		return errors.New("users.denyGroups: a group has no name")
	}
	if len(u.Owners) > messages.MaxAccounts {
		return fmt.Errorf("users.owners: has %d owners, more than %d", len(u.Owners), messages.MaxAccounts)
	}
	for _, owner := range slices.Sorted(maps.Keys(u.Owners)) {
		name := u.Owners[owner]
		found, err := user.Lookup(name)
		if err != nil {
			found, err = user.LookupId(name)
		}
		if err != nil || owner == "" {
			return fmt.Errorf("users.owners[%q]: %q is not a user of this machine", owner, name)
		}
		if uid, err := strconv.ParseUint(found.Uid, 10, 32); err != nil || uint32(uid) < u.least() {
			return fmt.Errorf("users.owners[%q]: %s has the number %s, and jobs run from %d on (users.from)",
				owner, name, found.Uid, u.least())
		}
	}
	return nil
}

// User is the user for a job of this owner that names this user. The first rule that fits decides: an owner whom the
// policy maps to a user has that one and no other; a job that names no user, or root of its own container, has that;
// `me`, or the owner's own name, is the account of that name, if the owner is proven; users.any allows every other.
func (u Users) User(owner string, proven bool, named string) (string, error) {
	id, group, grouped := strings.Cut(named, ":")
	own, mapped := u.Owners[owner]
	mine := id == messages.UserMe || id == owner
	switch {
	case !u.Proven && id == messages.UserMe:
		return "", refused("%s is the account with the owner's name, and without TLS this node does not know the owner; "+
			"name an account", messages.UserMe)
	case !u.Proven:
		return named, nil
	case mapped && (named == "" || mine && !grouped):
		return own, nil
	case mapped && (id == own || id == number(own)):
		return named, nil
	case mapped:
		return "", refused("jobs of %s run as %s on this machine, and not as %s; leave it out", owner, own, named)
	case id == "" || id == "root" || id == "0", os.Geteuid() != 0: // an agent that is not root runs all jobs as itself
		return named, nil
	case mine && proven:
		if why := u.ownDenied(owner); why != "" && !u.Any {
			return "", refused("%s", why)
		}
		return strings.TrimSuffix(owner+":"+group, ":"), nil
	case u.Any && id != messages.UserMe:
		return named, nil
	case mine:
		return "", refused("the name %s of the job's owner is not proven by a certificate or token of this cluster, so it "+
			"does not count as an account of this node (localUsers of the issuer, or an older scheduler); leave --user out, "+
			"or have the node's administrator add %s to users.owners", owner, owner)
	}
	return "", refused("%s is not the account of %s, who owns the job; leave --user out, name `%s`, or have the node's "+
		"administrator map %s to an account in users.owners", named, owner, messages.UserMe, owner)
}

func refused(format string, args ...any) error {
	return fault.OfJob(fmt.Errorf("user: "+format, args...))
}

// ownDenied is why jobs of an owner do not run as the account of the same name; empty: they do. Only a name counts: a
// number that is an owner's name would be another account's.
func (u Users) ownDenied(owner string) string {
	why := fmt.Sprintf("there is no account %s on this node; leave --user out, or have the node's administrator make "+
		"the account, or map %s to one in users.owners", owner, owner)
	known := false
	err := u.eachLine(passwdFile, func(fields []string) {
		l, ok := localOf(fields)
		if ok && l.name == owner && !known {
			why, known = u.accountDenied(l, u.readDenied()), true // the first line of a name is the account
		}
	})
	if err != nil {
		return "the accounts of this node cannot be read: " + err.Error()
	}
	return why
}

// number is the number of a user of the machine, as text; empty: the user is unknown.
func number(name string) string {
	found, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return found.Uid
}

// String returns the rules of users in force.
func (u Users) String() string {
	text := fmt.Sprintf("users from %d, in their own groups", u.least())
	switch {
	case !u.Proven:
		text += ", whoever owns the job (INSECURE: without TLS nobody knows the owner)"
	case u.Any:
		text += ", whoever owns the job (INSECURE: users.any)"
	default:
		text += ", if the owner has the same name and is in none of the groups " + strings.Join(u.denied(), ", ")
	}
	if len(u.Owners) == 0 {
		return text
	}
	owners := "owners"
	for i, owner := range slices.Sorted(maps.Keys(u.Owners)) {
		if i > 0 {
			owners += ","
		}
		owners += " " + owner + " as " + u.Owners[owner]
	}
	if !u.Proven {
		owners += " (not obeyed without --tls, because anybody could claim to be one)"
	}
	return text + "; " + owners
}
