// Package account decides as which user of the machine a task runs: which account a job's `user` is there, whether
// the machine's owner allows it, which number a job without a user has, and where that user may go. It knows
// nothing of a job's owner in the cluster, and it counts nothing. It is the one place where a job could become
// root.
package account

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// Account is a user of this machine.
type Account struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32
	// Self: the account is the agent's own, because an agent that is not root can use no other.
	Self bool
	// OfJob: the number belongs to the job alone, and no account of the machine has it.
	OfJob bool
	// Root: the task is root of a container of its own, and in the machine's directories the user UID.
	Root bool
}

// Rules holds the node owner's settings about users.
type Rules struct {
	// Default runs the jobs that name no user, where the agent is root; empty: nobody.
	Default string
	// AllowRoot lets jobs run as root.
	AllowRoot bool
	// From is the least number of a user that a job may name: those below are the machine's own services. 0: 1000.
	From uint32
	// UIDs are the numbers that the scheduler may give to jobs that name no user, each to one job; no job may name
	// them.
	UIDs topology.UIDRange
	// Unmapped: the agent's user namespace lacks UIDs. Such jobs then share one user, as on a machine without UIDs.
	Unmapped bool
	// Roots has the numbers for jobs that are root of their own containers; nil: no job may be.
	Roots *Roots
}

// defaultFrom is where the numbers of people begin on every distribution.
const defaultFrom = 1000

// nobody is the number of the user nobody where the machine does not know the name.
const nobody = 65534

// Of finds the user that a job names or, where it names none, the one whose number the scheduler gave it; 0: it gave
// none, as an earlier version does. An agent that is not root can run tasks only as its own user.
func (r Rules) Of(name string, uid uint32) (*Account, error) {
	if os.Geteuid() != 0 {
		return self(name)
	}
	if name == "" && uid != 0 && !r.Unmapped {
		return r.ofJob(uid)
	}
	if name == "" {
		name = r.Default
	}
	if name == "" {
		name = "nobody"
	}
	found, err := lookUp(name)
	if err != nil {
		return nil, err
	}
	if found.UID == 0 && !r.AllowRoot && r.Roots != nil {
		return r.ownRoot(found, uid)
	}
	if found.UID == 0 && !r.AllowRoot {
		return nil, fault.OfJob(fmt.Errorf("user: %s is root, which this machine does not let jobs be; name another user, "+
			"or allow root on the machine", name))
	}
	if r.UIDs.Has(found.UID) {
		return nil, fault.OfJob(fmt.Errorf("user: %s has the number %d, and this machine gives %v to jobs that name "+
			"no user; name another user, or none", name, found.UID, r.UIDs))
	}
	if from := cmp.Or(r.From, defaultFrom); found.UID != 0 && found.UID < from && name != r.Default {
		return nil, fault.OfJob(fmt.Errorf("user: %s has the number %d, and those below %d are the machine's own services; "+
			"name a person's account", name, found.UID, from))
	}
	return found, nil
}

// ofJob is a user that nothing else on the machine runs as, in a group of its own.
func (r Rules) ofJob(uid uint32) (*Account, error) {
	if !r.UIDs.Has(uid) {
		return nil, fault.OfMachine(fmt.Errorf("user: the scheduler gave the job the uid %d, and the agent has --uids %v; "+
			"give both the same", uid, r.UIDs))
	}
	return &Account{Name: fmt.Sprintf("job%d", uid), Home: "/", UID: uid, GID: uid, OfJob: true}, nil
}

// ownRoot is root inside a container only. In the machine's directories it has the uid of its job, or that of nobody
// where the leader gave it none because the job names a user.
func (r Rules) ownRoot(found *Account, uid uint32) (*Account, error) {
	if found.GID != 0 {
		return nil, fault.OfJob(
			fmt.Errorf("user: root of a container of its own is in the group 0, and not in %d; leave the group out", found.GID),
		)
	}
	root := &Account{Name: "root", Home: "/root", UID: nobody, GID: nobody, Root: true}
	if uid != 0 && !r.Unmapped {
		of, err := r.ofJob(uid)
		if err != nil {
			return nil, err
		}
		root.UID, root.GID = of.UID, of.GID
	}
	return root, nil
}

func self(name string) (*Account, error) {
	uid := strconv.Itoa(os.Geteuid())
	own := &Account{Name: uid, Home: "/", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Self: true}
	if u, err := user.LookupId(uid); err == nil {
		own.Name, own.Home = u.Username, u.HomeDir
	}
	groups, _ := os.Getgroups() // without them the task may go to fewer places, never to more
	for _, g := range groups {
		own.Groups = append(own.Groups, uint32(g))
	}
	if name != "" && name != own.Name && name != uid {
		return nil, fmt.Errorf("user: %s is not available, because the agent runs as %s and not as root; leave user out, or "+
			"run the agent as root", name, own.Name)
	}
	return own, nil
}

// lookUp takes a name, a number, or two numbers with a colon. The machine resolves names, not the image: an image
// could call any user root.
func lookUp(name string) (*Account, error) {
	id, group, hasGroup := strings.Cut(name, ":")
	u, err := user.Lookup(id)
	if err != nil {
		u, err = user.LookupId(id)
	}
	a := &Account{Name: id, Home: "/"}
	if err == nil {
		a.Name, a.Home = u.Username, u.HomeDir
		id = u.Uid
		a.GID = number(u.Gid)
		groups, _ := u.GroupIds() // a user without further groups is valid too
		for _, g := range groups {
			a.Groups = append(a.Groups, number(g))
		}
	} else if id == "nobody" {
		id = strconv.Itoa(nobody)
		a.GID = nobody
	}
	uid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user: %s is not known on this machine; make the user there, or give its number", name)
	}
	a.UID = uint32(uid)
	if a.GID == 0 && a.UID != 0 && u == nil {
		a.GID = groupOfNumber(uint32(uid))
	}
	if hasGroup {
		gid, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return nil, fault.OfJob(fmt.Errorf("user: the group of %s is not a number", name))
		}
		if g := uint32(gid); a.UID != 0 && g != a.GID && !slices.Contains(a.Groups, g) {
			return nil, fmt.Errorf("user: %s is not in the group %d on this machine; make it a member there, or leave the "+
				"group out", a.Name, g)
		}
		a.GID, a.Groups = uint32(gid), nil
	}
	return a, nil
}

// groupOfNumber is the group of a user for which the machine has no name: the group of the same number, unless the
// machine knows that group, because then it belongs to others.
func groupOfNumber(uid uint32) uint32 {
	if _, err := user.LookupGroupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return nobody
	}
	return uid
}

func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nobody
	}
	return uint32(n)
}

// Credential is the user as which a supervisor executes the task's command; nil: as the agent.
func (a *Account) Credential() *supervisor.User {
	if a.Self {
		return nil
	}
	return &supervisor.User{UID: a.UID, GID: a.GID, Groups: a.Groups}
}

// Guest is the account as the kernel checks its access to files.
func (a *Account) Guest() hostpath.Guest {
	return hostpath.Guest{UID: a.UID, GID: a.GID, Groups: a.Groups, Self: a.Self}
}

// Own hands a directory to the account.
func (a *Account) Own(dir string) error {
	if a.Self {
		return nil
	}
	return os.Chown(dir, int(a.UID), int(a.GID))
}

// Barred is the first directory above a path, from the path upwards, that the account cannot pass through; empty:
// there is none. Without this check, root would mount the path for a user that cannot reach it.
func (a *Account) Barred(path string) (string, error) {
	if a.UID == 0 {
		return "", nil
	}
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		owner := info.Sys().(*syscall.Stat_t)
		bit := os.FileMode(0o001)
		switch {
		case owner.Uid == a.UID:
			bit = 0o100
		case owner.Gid == a.GID || slices.Contains(a.Groups, owner.Gid):
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return dir, nil
		}
	}
	return "", nil
}
