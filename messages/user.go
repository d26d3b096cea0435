package messages

import (
	"strconv"
	"strings"
)

// This file owns what can be said of a job's user without a machine: machines have users.

// NeedsUID reports whether a job's tasks have a uid that is the job's alone: it names no user, or root, which is one in
// its containers alone and somebody in the machines' directories. Names are the machines' own; root is called that on
// all.
func (x *JobSpec) NeedsUID() bool {
	user, _, _ := strings.Cut(x.GetUser(), ":")
	number, err := strconv.ParseUint(user, 10, 32)
	return x.GetUser() == "" || user == "root" || err == nil && number == 0
}
