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

// This file decides which local accounts of the node may run jobs of an owner with the same name. It reads the files of
// local accounts itself. A directory service cannot list all its accounts, and some builds of this program cannot query
// one.

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// local is a local account of the node.
type local struct {
	name, gid string
	uid       uint32
}

// localOf parses the account of a line; ok reports whether the line has one.
func localOf(fields []string) (l local, ok bool) {
	if len(fields) < 4 || fields[0] == "" {
		return l, false
	}
	uid, err := strconv.ParseUint(fields[2], 10, 32)
	return local{fields[0], fields[3], uint32(uid)}, err == nil
}

// deniedGroups holds the denied groups: their ids with their names, and their members with the group. If the groups
// cannot be read, every account is denied.
type deniedGroups struct {
	ids, members map[string]string
	err          error
}

// readDenied finds the denied groups of the node. A group with another name but the same id counts too.
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

// accountDenied returns the reason why an account cannot run jobs of the owner with the same name; empty: it can.
func (u Users) accountDenied(l local, denied deniedGroups) string {
	group := denied.ids[l.gid]
	if group == "" {
		group = denied.members[l.name]
	}
	switch {
	case denied.err != nil:
		return fmt.Sprintf("the groups of %s cannot be read: %v", l.name, denied.err)
	case l.uid < u.least():
		return fmt.Sprintf("%s has the uid %d, but jobs run only with uids from %d on (users.from)", l.name, l.uid, u.least())
	case u.UIDs.Has(l.uid):
		return fmt.Sprintf("%s has the uid %d, but this node reserves %v for jobs that name no user", l.name, l.uid, u.UIDs)
	case group != "":
		return fmt.Sprintf("%s is in the group %s, whose members cannot run jobs here (users.denyGroups); omit --user, "+
			"or ask the node's administrator to map the owner in users.owners", l.name, group)
	}
	return ""
}

// eachLine calls take with the fields of each line of an account file. A missing file has no lines.
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
