package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns as whom a task runs.

// account is a user of this machine.
type account struct {
	name, home string
	credential *supervisor.User // nil: as the agent
}

// nobody is who runs what belongs to no one, where the machine does not know the name.
const nobody = 65534

// user finds whom the job names. An agent that is not root can run nobody's
// tasks but its own.
func (d *Driver) user(s *messages.JobSpec) (*account, error) {
	if os.Geteuid() != 0 {
		return d.self(s.GetUser())
	}
	name := s.GetUser()
	if name == "" {
		name = d.o.DefaultUser
	}
	if name == "" {
		name = "nobody"
	}
	found, err := lookUp(name)
	if err != nil {
		return nil, err
	}
	if found.credential.UID == 0 && !d.o.AllowRoot {
		return nil, fmt.Errorf("user: %s is root, which this machine does not let jobs be; name another user, or allow root on the machine", name)
	}
	return found, nil
}

func (d *Driver) self(name string) (*account, error) {
	uid := strconv.Itoa(os.Geteuid())
	own := &account{name: uid, home: "/"}
	if u, err := user.LookupId(uid); err == nil {
		own.name, own.home = u.Username, u.HomeDir
	}
	if name != "" && name != own.name && name != uid {
		return nil, fmt.Errorf("user: %s cannot be had, because the agent runs as %s and not as root; leave user out, or run the agent as root", name, own.name)
	}
	return own, nil
}

// lookUp takes a name, a number, or two numbers with a colon.
func lookUp(name string) (*account, error) {
	id, group, hasGroup := strings.Cut(name, ":")
	u, err := user.Lookup(id)
	if err != nil {
		u, err = user.LookupId(id)
	}
	a := &account{name: id, home: "/", credential: &supervisor.User{}}
	if err == nil {
		a.name, a.home = u.Username, u.HomeDir
		id = u.Uid
		a.credential.GID = number(u.Gid)
		groups, _ := u.GroupIds() // a user without further groups is one all the same
		for _, g := range groups {
			a.credential.Groups = append(a.credential.Groups, number(g))
		}
	} else if id == "nobody" {
		id = strconv.Itoa(nobody)
		a.credential.GID = nobody
	}
	uid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user: %s is not known on this machine; make the user there, or give its number", name)
	}
	a.credential.UID = uint32(uid)
	if a.credential.GID == 0 && a.credential.UID != 0 && u == nil {
		a.credential.GID = uint32(uid) // a number that the machine has no name for
	}
	if hasGroup {
		gid, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user: the group of %s is not a number", name)
		}
		a.credential.GID, a.credential.Groups = uint32(gid), nil
	}
	return a, nil
}

func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nobody
	}
	return uint32(n)
}
