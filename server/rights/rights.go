// Package rights says what each role may do: one table of rights by role, one of which rights a call needs, and one of
// which role sees which field of an answer. What stands in none of them is refused, or not shown. It decides by what it
// is given, asks nobody, and keeps nothing.
package rights

import (
	"slices"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the rights, and which role has which of them.

// Right names something that somebody may do.
type Right string

// The rights. Those of OfJobs are about one job, and the job's owner counts.
const (
	Link    Right = "link"
	Health  Right = "health"
	Reflect Right = "reflect"
	Known   Right = "cluster" // whom I speak to, and whom it takes me for

	ReadJobs     Right = "read-jobs"
	ReadMachines Right = "read-machines"
	ReadIDs      Right = "read-machine-ids"
	ReadPrivate  Right = "read-private"
	ReadLogs     Right = "read-logs"
	ReadScript   Right = "read-script"
	ReadSecrets  Right = "read-secrets"
	ReadMetrics  Right = "read-metrics"

	Submit       Right = "submit"
	SubmitUser   Right = "submit-user"
	SubmitMounts Right = "submit-mounts"
	SubmitImage  Right = "submit-image"
	SubmitQueue  Right = "submit-queue"

	Cancel     Right = "cancel"
	Hold       Right = "hold"
	Release    Right = "release"
	Requeue    Right = "requeue"
	Exec       Right = "exec"
	Carry      Right = "carry-exec"
	ExecInGang Right = "reach-fellows" // as it was published
	Priority   Right = "set-priority"
	Limit      Right = "set-time-limit"
	Begin      Right = "set-begin"
	ArrayMost  Right = "set-array-most"
	Give       Right = "give"

	Cordon Right = "cordon"
	Drain  Right = "drain"
	Remove Right = "remove"

	ReadQueues  Right = "read-queues"
	ApplyQueues Right = "apply-queues"

	ReadTokens Right = "read-tokens"
	SetTokens  Right = "set-tokens"
)

// Reach says how far a right goes.
type Reach int

// The reaches. Without one a role does not have the right at all.
const (
	None Reach = iota
	Own        // jobs of the same owner
	Any
)

// rightRow says who has one right.
type rightRow struct {
	right                                               Right
	admin, operator, submitter, viewer, node, scheduler Reach
	words                                               string // of the right, behind "may not"
	changes                                             bool   // something, as against reading
}

// lines is the table. Secrets are for a machine that runs what they belong to, which the gateway looks up. A script is
// for whoever knows its digest, and the digest is shown to those who may read the job.
var lines = []rightRow{
	{Link, None, None, None, None, Any, None, "open a machine's link", false},
	{Health, Any, Any, Any, Any, Any, Any, "ask for the scheduler's health", false},
	{Reflect, Any, None, None, None, None, None, "list what can be called", false},
	{Known, Any, Any, Any, Any, None, None, "ask whom it speaks to", false},

	{ReadJobs, Any, Any, Any, Any, None, None, "look at jobs", false},
	{ReadMachines, Any, Any, Any, Any, None, None, "look at machines", false},
	{ReadIDs, Any, None, None, None, None, None, "see the ids of machines", false},
	{ReadPrivate, Any, Own, Own, Own, None, None, "see the env and the command of", false},
	{ReadLogs, Any, Own, Own, Own, None, None, "read the output of", false},
	{ReadScript, Any, Any, Any, None, Any, None, "read scripts", false},
	{ReadSecrets, None, None, None, None, Any, None, "be given the secrets of what runs there", false},
	{ReadMetrics, Any, Any, Any, Any, None, None, "look at figures of the cluster", false},

	{Submit, Any, Any, Any, None, None, None, "submit jobs", true},
	{SubmitUser, Any, Any, Any, None, None, None, "name a user", true},
	{SubmitMounts, Any, Any, Any, None, None, None, "name mounts", true},
	{SubmitImage, Any, Any, Any, None, None, None, "name an image", true},
	{SubmitQueue, Any, Any, Any, None, None, None, "name a queue", true},

	{Cancel, Any, Any, Own, None, None, None, "cancel", true},
	{Hold, Any, Any, Own, None, None, None, "hold", true},
	{Release, Any, Any, Own, None, None, None, "release", true},
	{Requeue, Any, Any, Own, None, None, None, "requeue", true},
	{Exec, Any, Own, Own, None, None, None, "run processes in the tasks of", true},
	{Carry, None, None, None, None, Any, None, "come for a process that it was told to run", false},
	{ExecInGang, None, None, None, None, Any, None, "run processes in other tasks of an attempt that it runs", false},
	{Priority, Any, Any, Own, None, None, None, "set the priority of", true},
	{Limit, Any, Any, Own, None, None, None, "set the time limit of", true},
	{Begin, Any, Any, Own, None, None, None, "set the begin of", true},
	{ArrayMost, Any, Any, Own, None, None, None, "set how many elements run at once of", true},
	{Give, Any, None, None, None, None, None, "give somebody", true},

	{Cordon, Any, Any, None, None, None, None, "close, open or note machines", true},
	{Drain, Any, Any, None, None, None, None, "drain machines", true},
	{Remove, Any, Any, None, None, None, None, "say that a machine is gone", true},

	{ReadQueues, Any, Any, Any, Any, None, None, "look at queues", false},
	{ApplyQueues, Any, Any, None, None, None, None, "apply queues", true},

	{ReadTokens, Any, None, None, None, None, None, "list the tokens of people", false},
	{SetTokens, Any, None, None, None, None, None, "make and revoke tokens of people", true},
}

// OfJobs are the rights that are about one job.
var OfJobs = []Right{ReadPrivate, ReadLogs, Cancel, Hold, Release, Requeue, Exec, Priority, Limit, Begin,
	ArrayMost, Give}

// All returns all rights, as in the table.
func All() []Right {
	all := make([]Right, len(lines))
	for i, l := range lines {
		all[i] = l.right
	}
	return all
}

// OfJob reports whether a right is about one job.
func (r Right) OfJob() bool { return slices.Contains(OfJobs, r) }

// Of says how far a role has the right.
func (r Right) Of(role identity.Role) Reach {
	l := r.line()
	return map[identity.Role]Reach{ // None for any other
		identity.RoleAdmin: l.admin, identity.RoleOperator: l.operator, identity.RoleSubmitter: l.submitter,
		identity.RoleViewer: l.viewer, identity.RoleNode: l.node, identity.RoleScheduler: l.scheduler,
	}[role]
}

// Changes reports whether a right changes something.
func (r Right) Changes() bool { return r.line().changes }

// Words are the right, behind "may".
func (r Right) Words() string { return r.line().words }

func (r Right) line() rightRow {
	if i := slices.IndexFunc(lines, func(l rightRow) bool { return l.right == r }); i >= 0 {
		return lines[i]
	}
	return rightRow{}
}

// Who says who has a right, in words for whoever has it not.
func (r Right) Who() string {
	words, own := "", false
	for _, role := range identity.Roles {
		switch r.Of(role) {
		case Own:
			own = true
		case Any:
			if words != "" {
				words += ", "
			}
			words += plural[role]
		}
	}
	if own {
		return "the job's owner, " + words
	}
	return words
}

var plural = map[identity.Role]string{
	identity.RoleScheduler: "schedulers", identity.RoleNode: "machines", identity.RoleAdmin: "admins",
	identity.RoleOperator: "operators", identity.RoleSubmitter: "submitters", identity.RoleViewer: "viewers",
}

// Mine reports whether a job of this owner is this person's. What came in before there were identities has no owner.
func Mine(name, owner string) bool {
	return owner == name && owner != messages.Anonymous && owner != ""
}
