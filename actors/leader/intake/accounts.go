package intake

import (
	"strconv"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the account under which a job runs. The user `me` means the account with the owner's name. The name is
// written into the record at submit, so that older agents see an ordinary name. Nodes decide which accounts they
// accept, and announce their rules. A job that every node would refuse is refused at submit. A job that is already
// waiting keeps waiting with that reason.

// asOwner replaces the user `me` in a spec by the owner's name.
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

// notMe returns why an owner's name cannot be an account. It returns the empty string if it can. A node could mistake a
// number, or a name with a colon, for another account. For a node, root means root inside the job's own container.
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

// GangFor returns the request of a job with its account. If every node accepts the account, the account does not limit
// the placement, and the gang is planned without it.
func GangFor(tree *topology.Tree, owner *messages.Principal, spec *messages.JobSpec) topology.Gang {
	gang := messages.GangOf(spec)
	if as := messages.AccountOf(owner, spec); !tree.AcceptedEverywhere(as) {
		gang.Account = as
	}
	return gang
}
