package messages

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages/plain"
	"github.com/yi-json/synapse/topology"
)

// This file has the checks of a job's user that do not depend on a node. The accounts themselves exist only on nodes.

// UserMe is the user of a job that runs as its owner, in the account with the owner's name. Records never contain it.
const UserMe = plain.UserMe

// NeedsUID reports whether the tasks of a job need a uid of that job. They do if the job names no user, or names root.
// Root inside a container must not be root in the directories of the node. Names of other accounts differ between
// nodes, but root has the same name everywhere.
func (x *JobSpec) NeedsUID() bool {
	user, _, _ := strings.Cut(x.GetUser(), ":")
	number, err := strconv.ParseUint(user, 10, 32)
	return x.GetUser() == "" || user == "root" || err == nil && number == 0
}

// AccountOf returns the account that a job requests on nodes. It returns zero if the job needs a uid instead.
func AccountOf(owner *Principal, spec *JobSpec) topology.Account {
	if spec.NeedsUID() {
		return topology.Account{}
	}
	name, _, _ := strings.Cut(spec.GetUser(), ":")
	if name == UserMe {
		name = owner.GetName()
	}
	return topology.Account{Owner: owner.GetName(), Name: name, Proven: owner.GetProven()}
}
