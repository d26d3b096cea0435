// Package account decides which user of the node runs a task. It resolves a job's `user` to an account, checks it
// against the node's rules, and handles the uids of jobs without a user. It also checks which directories a user can
// enter. It knows nothing of a job's owner in the cluster, and counts nothing. It is the only package through which a
// job could become root.
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

// Account is a user of this node.
type Account struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32
	// Self reports that the account is the agent's own. An agent that is not root can use no other.
	Self bool
	// OfJob reports that the uid belongs to only this job, and that no account of the node has it.
	OfJob bool
	// Root reports that the task is root inside its container, and the user UID in host directories.
	Root bool
}

// Rules holds the node owner's settings about users.
type Rules struct {
	// Default is the user of jobs that name no user, if the agent is root; empty: nobody.
	Default string
	// AllowRoot lets jobs run as root.
	AllowRoot bool
	// From is the smallest uid that a job may name. Smaller uids belong to system services. 0: 1000.
	From uint32
	// UIDs is the range of uids that the scheduler may give to jobs that name no user, one per job. No job may name
	// them.
	UIDs topology.UIDRange
	// Unmapped reports that the agent's user namespace lacks UIDs. Such jobs then share one user, as on a node
	// without UIDs.
	Unmapped bool
	// Roots provides the uids for jobs that are root inside their containers; nil: no job may be.
	Roots *Roots
}

// defaultFrom is the first uid of ordinary users on every distribution.
const defaultFrom = 1000

// nobody is the uid of the user nobody if the node does not know the name.
const nobody = 65534

// Of returns the user that a job names. If the job names none, it returns the user of the scheduler's uid for the job;
// 0: there is none, as from an earlier version. An agent that is not root can run tasks only as its own user.
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
		return nil, fault.OfJob(fmt.Errorf("user: %s is root, which this node does not permit to jobs; name another user, "+
			"or permit root on the node", name))
	}
	if r.UIDs.Has(found.UID) {
		return nil, fault.OfJob(fmt.Errorf("user: %s has the uid %d, but this node reserves %v for jobs that name "+
			"no user; name another user, or none", name, found.UID, r.UIDs))
	}
	if from := cmp.Or(r.From, defaultFrom); found.UID != 0 && found.UID < from && name != r.Default {
		return nil, fault.OfJob(fmt.Errorf("user: %s has the uid %d, but uids below %d belong to system services; "+
			"name an ordinary account", name, found.UID, from))
	}
	return found, nil
}

// ofJob returns a user that runs nothing else on the node, in a separate group.
func (r Rules) ofJob(uid uint32) (*Account, error) {
	if !r.UIDs.Has(uid) {
		return nil, fault.OfMachine(fmt.Errorf("user: the scheduler gave the job the uid %d, but the agent has --uids %v; "+
			"set the same --uids on both", uid, r.UIDs))
	}
	return &Account{Name: fmt.Sprintf("job%d", uid), Home: "/", UID: uid, GID: uid, OfJob: true}, nil
}

// ownRoot returns an account that is root only inside a container. In host directories it has the uid of its job. If
// the leader gave none because the job names a user, it has the uid of nobody.
func (r Rules) ownRoot(found *Account, uid uint32) (*Account, error) {
	if found.GID != 0 {
		return nil, fault.OfJob(
			fmt.Errorf("user: root inside a container is in the group 0, and not in %d; omit the group", found.GID),
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
	groups, _ := os.Getgroups() // without them, the task can access fewer files, never more
	for _, g := range groups {
		own.Groups = append(own.Groups, uint32(g))
	}
	if name != "" && name != own.Name && name != uid {
		return nil, fmt.Errorf("user: %s is not available, because the agent runs as %s and not as root; omit user, or "+
			"run the agent as root", name, own.Name)
	}
	return own, nil
}

// lookUp accepts a name, a number, or two numbers with a colon. The node resolves names, not the image, because an
// image could call any user root.
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
		return nil, fmt.Errorf("user: %s is unknown on this node; create the user there, or use its uid", name)
	}
	a.UID = uint32(uid)
	if a.GID == 0 && a.UID != 0 && u == nil {
		a.GID = groupOfNumber(uint32(uid))
	}
	if hasGroup {
		gid, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return nil, fault.OfJob(fmt.Errorf("user: the group of %s is not a number; use its gid", name))
		}
		if g := uint32(gid); a.UID != 0 && g != a.GID && !slices.Contains(a.Groups, g) {
			return nil, fmt.Errorf("user: %s is not in the group %d on this node; add the user to the group, or omit the "+
				"group", a.Name, g)
		}
		a.GID, a.Groups = uint32(gid), nil
	}
	return a, nil
}

// groupOfNumber returns the group of a uid for which the node has no name. It is the group of the same number, unless
// the node knows that group, because then it belongs to others.
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

// Credential returns the user that executes the task's command; nil: the agent's user.
func (a *Account) Credential() *supervisor.User {
	if a.Self {
		return nil
	}
	return &supervisor.User{UID: a.UID, GID: a.GID, Groups: a.Groups}
}

// Guest returns the account in the form for file access checks of the kernel.
func (a *Account) Guest() hostpath.Guest {
	return hostpath.Guest{UID: a.UID, GID: a.GID, Groups: a.Groups, Self: a.Self}
}

// Own gives a directory to the account.
func (a *Account) Own(dir string) error {
	if a.Self {
		return nil
	}
	return os.Chown(dir, int(a.UID), int(a.GID))
}

// Barred returns the first directory above a path, from the path upwards, that the account cannot enter; empty: none.
// Without this check, root would mount the path for a user that cannot reach it.
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
