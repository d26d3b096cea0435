package account

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/topology"
)

// This file checks whether a range of uids is free for jobs on this node. A job must not run as an existing user.

// accountFiles lists the files with used ids: the field with the first id, and the field with the count, if there is
// one.
var accountFiles = []struct {
	path          string
	number, count int
}{{"/etc/passwd", 2, 0}, {"/etc/group", 2, 0}, {"/etc/subuid", 1, 2}, {"/etc/subgid", 1, 2}}

// CheckUIDs refuses a range that overlaps the node's users, groups, or the id ranges for users' containers. It does not
// see those of a directory service, which cannot list all of them.
func CheckUIDs(r topology.UIDRange) error { return checkUIDs("", r) }

func checkUIDs(root string, r topology.UIDRange) error {
	if r.Len() == 0 {
		return nil
	}
	for _, f := range accountFiles {
		file, err := os.Open(root + f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = meets(file, f.number, f.count, r)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

func meets(file *os.File, number, count int, r topology.UIDRange) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20) // a group may have many members
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) <= max(number, count) {
			continue
		}
		first, err := strconv.ParseUint(fields[number], 10, 32)
		if err != nil {
			continue
		}
		n := uint64(1)
		if count > 0 {
			if n, err = strconv.ParseUint(fields[count], 10, 33); err != nil || n == 0 {
				continue
			}
		}
		if first <= uint64(r.Last) && first+n > uint64(r.First) {
			return fmt.Errorf("%s has ids in %v: %d to %d", fields[0], r, first, first+n-1)
		}
	}
	return lines.Err()
}

// Mapped reports whether the agent can run tasks under a range, because root in a user namespace has a limited number
// of ids.
func Mapped(r topology.UIDRange) bool {
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without user namespaces
		}
		if err != nil || !covers(string(text), r) {
			return false
		}
	}
	return true
}

// covers reports whether one line of a map contains the whole range. The fields are inside, outside and count.
func covers(text string, r topology.UIDRange) bool {
	for line := range strings.Lines(text) {
		var inside, outside, n uint64
		_, err := fmt.Sscan(line, &inside, &outside, &n)
		if err == nil && inside <= uint64(r.First) && uint64(r.Last) < inside+n {
			return true
		}
	}
	return r.Len() == 0
}
