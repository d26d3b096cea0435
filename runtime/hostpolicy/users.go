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

// This file decides which account of the node runs a job. The owner of a job is a name in the cluster. Accounts belong
// to the node. The two are connected only if the owner's name is proven and the node's rules accept it.

// Users decides which users may run jobs.
type Users struct {
	From uint32 `yaml:"from"` // the smallest uid of a user; 0: 1000
	// Owners maps owners of jobs to users. Without Proven, the map is checked and reported but not used, because
	// any client may claim to be an owner.
	Owners map[string]string `yaml:"owners"`
	// DenyGroups lists groups whose members cannot run jobs of owners with the same name; nil: defaultDenyGroups.
	DenyGroups []string `yaml:"denyGroups"`
	// Any permits each job to name any account from From on, regardless of its owner.
	Any bool `yaml:"any"`
	// Proven reports that certificates prove the owners of jobs: the node uses TLS.
	Proven bool `yaml:"-"`
	// UIDs is the range for jobs that name no user.
	UIDs topology.UIDRange `yaml:"-"`
	// root is the parent of /etc in tests.
	root string
}

// defaultDenyGroups lists groups whose members can become root, read other users' data, or use devices directly.
var defaultDenyGroups = []string{"root", "sudo", "wheel", "docker", "lxd", "disk", "adm", "shadow", "kvm"}

// least returns the smallest uid of a user that jobs may name.
func (u Users) least() uint32 { return cmp.Or(u.From, 1000) }

// denied returns the groups whose members cannot run jobs.
func (u Users) denied() []string {
	if u.DenyGroups == nil {
		return defaultDenyGroups
	}
	return u.DenyGroups
}

// check refuses owners whose jobs could never run.
func (u Users) check() error {
	if slices.Contains(u.DenyGroups, "") {
		return errors.New("users.denyGroups: a group has no name; remove the empty entry")
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
			return fmt.Errorf("users.owners[%q]: %q is not a user of this node", owner, name)
		}
		if uid, err := strconv.ParseUint(found.Uid, 10, 32); err != nil || uint32(uid) < u.least() {
			return fmt.Errorf("users.owners[%q]: %s has the uid %s, but jobs run only with uids from %d on (users.from)",
				owner, name, found.Uid, u.least())
		}
	}
	return nil
}

// User returns the user that runs a job with this owner and this named user. The first matching rule decides. 1: if the
// policy maps the owner to a user, the job runs as that user only. 2: a job that names no user, or root of its own
// container, gets that. 3: `me` or the owner's own name means the account of that name, if the owner is proven. 4:
// users.any permits every other user.
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
		return "", refused("jobs of %s run as %s on this node, and not as %s; omit the user", owner, own, named)
	case id == "" || id == "root" || id == "0", os.Geteuid() != 0: // without root, the agent runs all jobs as itself
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
			"does not count as an account of this node (localUsers of the issuer, or an older scheduler); omit --user, "+
			"or ask the node's administrator to add %s to users.owners", owner, owner)
	}
	return "", refused("%s is not the account of %s, who owns the job; omit --user, use `%s`, or ask the node's "+
		"administrator to map %s to an account in users.owners", named, owner, messages.UserMe, owner)
}

func refused(format string, args ...any) error {
	return fault.OfJob(fmt.Errorf("user: "+format, args...))
}

// ownDenied returns the reason why jobs of an owner cannot run as the account of the same name; empty: they can. An
// owner's name that is a number does not count, because the uid would belong to another account.
func (u Users) ownDenied(owner string) string {
	why := fmt.Sprintf("there is no account %s on this node; omit --user, or ask the node's administrator to create "+
		"the account or to map %s to one in users.owners", owner, owner)
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

// number returns the uid of a user as text; empty: the user is unknown.
func number(name string) string {
	found, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return found.Uid
}

// String returns the effective rules about users.
func (u Users) String() string {
	text := fmt.Sprintf("users from %d, in their own groups", u.least())
	switch {
	case !u.Proven:
		text += ", for any owner (INSECURE: without TLS, owners are not proven)"
	case u.Any:
		text += ", for any owner (INSECURE: users.any)"
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
		owners += " (not used without --tls, because any client could claim to be one)"
	}
	return text + "; " + owners
}
