package intake

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns which account of the machines a job names. The user `me` is the account with the owner's name: it is
// written into the record at submit, so that agents of earlier versions see a name like any other. Machines decide
// whether they run a job as an account, and say beforehand how: a job that every machine would refuse is refused at
// submit, and one that waits already waits with that reason.

// asOwner is a spec in which `me` is the owner's name.
func asOwner(by *messages.Principal, spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	id, group, grouped := strings.Cut(spec.GetUser(), ":")
	if id != messages.UserMe {
		return spec, nil
	}
	if why := notMe(by); why != "" {
		return nil, Reply("", messages.Code_CODE_INVALID, "spec.user", why,
			"name an account with --user, or omit --user to run with a separate uid")
	}
	spec = actors.CopyOf(spec)
	if spec.User = by.GetName(); grouped {
		spec.User += ":" + group
	}
	return spec, nil
}

// notMe is why an owner's name can be no account; empty: it can. A machine could take a number, or a name with a colon,
// for another account, and it takes root for root of the job's own container.
func notMe(by *messages.Principal) string {
	name := by.GetName()
	_, err := strconv.ParseUint(name, 10, 64)
	switch {
	case by.Known() == "":
		return messages.UserMe + " is the account with the owner's name, and without TLS the owner is unknown"
	case name == "root":
		return messages.UserMe + " is never root, and you are root"
	case err == nil || strings.Contains(name, ":") || name == messages.UserMe:
		return "your name " + name + " cannot be an account name"
	}
	return ""
}

// GangFor returns what a job asks for, with the account that it names. Where every machine accepts that account it
// does not
// matter where the gang goes, and it is planned like a gang without one.
func GangFor(fabric *topology.Fabric, owner *messages.Principal, spec *messages.JobSpec) topology.Gang {
	gang := messages.GangOf(spec)
	if as := messages.AccountOf(owner, spec); !fabric.AcceptedEverywhere(as) {
		gang.Account = as
	}
	return gang
}
