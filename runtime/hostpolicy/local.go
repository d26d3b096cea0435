package hostpolicy

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// This file owns which of the machine's local accounts jobs of an owner of the same name may have. It reads the
// files of local accounts itself: a directory service cannot list all its accounts, and not every build of this
// program asks one.

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// local is an account of the machine's own.
type local struct {
	name, gid string
	uid       uint32
}

// localOf is the account of a line; ok: it is one.
func localOf(fields []string) (l local, ok bool) {
	if len(fields) < 4 || fields[0] == "" {
		return l, false
	}
	uid, err := strconv.ParseUint(fields[2], 10, 32)
	return local{fields[0], fields[3], uint32(uid)}, err == nil
}

// deniedGroups are the groups whose members are denied: their numbers with their names, and the members with the
// group. If they cannot be read, every account is denied.
type deniedGroups struct {
	ids, members map[string]string
	err          error
}

// readDenied finds the denied groups of the machine. Another name of a group with the same number counts too.
func (u Users) readDenied() deniedGroups {
	all := deniedGroups{ids: map[string]string{}, members: map[string]string{}}
	names := u.denied()
	all.err = u.eachLine(groupFile, func(fields []string) {
		if len(fields) >= 4 && slices.Contains(names, fields[0]) {
			all.ids[fields[2]] = fields[0]
		}
	})
	if slices.Contains(names, "root") {
		all.ids["0"] = "root"
	}
	again := u.eachLine(groupFile, func(fields []string) {
		if len(fields) < 4 || all.ids[fields[2]] == "" {
			return
		}
		for member := range strings.SplitSeq(fields[3], ",") {
			all.members[strings.TrimSpace(member)] = all.ids[fields[2]]
		}
	})
	all.err = errors.Join(all.err, again)
	return all
}

// accountDenied is why an account is none for jobs of the owner of the same name; empty: it is one.
func (u Users) accountDenied(l local, denied deniedGroups) string {
	group := denied.ids[l.gid]
	if group == "" {
		group = denied.members[l.name]
	}
	switch {
	case denied.err != nil:
		return fmt.Sprintf("the groups of %s cannot be read: %v", l.name, denied.err)
	case l.uid < u.least():
		return fmt.Sprintf("%s has the number %d, and jobs run from %d on (users.from)", l.name, l.uid, u.least())
	case u.UIDs.Has(l.uid):
		return fmt.Sprintf("%s has the number %d, and this node gives %v to jobs that name no user", l.name, l.uid, u.UIDs)
	case group != "":
		return fmt.Sprintf("%s is in the group %s, as whose members jobs do not run here (users.denyGroups); leave --user "+
			"out, or have the node's administrator map the owner in users.owners", l.name, group)
	}
	return ""
}

// eachLine calls a function for each line of a file of accounts, with its fields. A machine without accounts has no
// such file.
func (u Users) eachLine(path string, take func(fields []string)) error {
	file, err := os.Open(u.root + path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20) // a group may have many members
	for lines.Scan() {
		take(strings.Split(lines.Text(), ":"))
	}
	return lines.Err()
}
