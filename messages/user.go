package messages

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/topology"
)

// This file owns what can be said of a job's user without a machine: machines have users.

// UserMe is the user of a job that runs as its owner: the account that has the owner's name. A record never has it.
const UserMe = "me"

// NeedsUID reports whether a job's tasks have a uid that is the job's alone: it names no user, or root, which is one in
// its containers alone and somebody in the machines' directories. Names are the machines' own; root is called that on
// all.
func (x *JobSpec) NeedsUID() bool {
	user, _, _ := strings.Cut(x.GetUser(), ":")
	number, err := strconv.ParseUint(user, 10, 32)
	return x.GetUser() == "" || user == "root" || err == nil && number == 0
}

// AccountOf is the account of the machines that a job of an owner names; zero: none, or root of its own container.
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
