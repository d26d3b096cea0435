// Package rights defines what each role may do. One table maps rights to roles, one maps calls to the rights they
// need, and one maps fields of answers to the roles that see them. A call or field without an entry is refused or
// hidden. The decisions depend only on the arguments.
package rights

import (
	"slices"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file defines the rights and the roles that have them.

// Right is the name of a permission.
type Right string

// The rights. Those in OfJobs apply to one job and may depend on its owner.
const (
	Link    Right = "link"
	Health  Right = "health"
	Reflect Right = "reflect"
	Known   Right = "cluster" // the identity of the cluster and of the caller

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
	SubmitWeb    Right = "submit-web"

	Cancel     Right = "cancel"
	Hold       Right = "hold"
	Release    Right = "release"
	Requeue    Right = "requeue"
	Exec       Right = "exec"
	Carry      Right = "carry-exec"
	ExecInGang Right = "reach-fellows" // the published name
	ReadOwn    Right = "read-own-job"
	ChangeOwn  Right = "change-own-job"
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

// Reach is the scope of a right.
type Reach int

// The scopes of a right. None means that a role does not have the right.
const (
	None Reach = iota
	Own        // jobs of the same owner
	Any
)

// rightRow defines which roles have one right.
type rightRow struct {
	right                                               Right
	admin, operator, submitter, viewer, node, scheduler Reach
	words                                               string // text of the right after "may not"
	changes                                             bool   // a change, not a read
}

// lines is the table. The gateway gives secrets only to a node that runs the job. A script can be read by anyone
// who knows its digest, and only readers of the job see the digest.
var lines = []rightRow{
	{Link, None, None, None, None, Any, None, "open a node's link", false},
	{Health, Any, Any, Any, Any, Any, Any, "read the scheduler's health", false},
	{Reflect, Any, None, None, None, None, None, "list gRPC services", false},
	{Known, Any, Any, Any, Any, None, None, "read its own identity", false},

	{ReadJobs, Any, Any, Any, Any, None, None, "see jobs", false},
	{ReadMachines, Any, Any, Any, Any, None, None, "see nodes", false},
	{ReadIDs, Any, None, None, None, None, None, "see the machine IDs of nodes", false},
	{ReadPrivate, Any, Own, Own, Own, None, None, "see the env and the command of", false},
	{ReadLogs, Any, Own, Own, Own, None, None, "read the output of", false},
	{ReadScript, Any, Any, Any, None, Any, None, "read scripts", false},
	{ReadSecrets, None, None, None, None, Any, None, "get the secrets of a job that runs on it", false},
	{ReadMetrics, Any, Any, Any, Any, None, None, "read metrics of the cluster", false},

	{Submit, Any, Any, Any, None, None, None, "submit jobs", true},
	{SubmitUser, Any, Any, Any, None, None, None, "name a user", true},
	{SubmitMounts, Any, Any, Any, None, None, None, "name mounts", true},
	{SubmitImage, Any, Any, Any, None, None, None, "name an image", true},
	{SubmitQueue, Any, Any, Any, None, None, None, "name a queue", true},
	{SubmitWeb, Any, Any, Any, None, None, None, "submit jobs from the web UI", true},

	{Cancel, Any, Any, Own, None, None, None, "cancel", true},
	{Hold, Any, Any, Own, None, None, None, "hold", true},
	{Release, Any, Any, Own, None, None, None, "release", true},
	{Requeue, Any, Any, Own, None, None, None, "requeue", true},
	{Exec, Any, Own, Own, None, None, None, "run processes in the tasks of", true},
	{Carry, None, None, None, None, Any, None, "fetch an exec session of its task", false},
	{ExecInGang, None, None, None, None, Any, None, "run processes in other tasks of the same attempt", false},
	{ReadOwn, None, None, None, None, Any, None, "read the job of its task", false},
	{ChangeOwn, None, None, None, None, Any, None, "requeue or cancel the job of its task", true},
	{Priority, Any, Any, Own, None, None, None, "set the priority of", true},
	{Limit, Any, Any, Own, None, None, None, "set the time limit of", true},
	{Begin, Any, Any, Own, None, None, None, "set the begin time of", true},
	{ArrayMost, Any, Any, Own, None, None, None, "set the concurrency limit of", true},
	{Give, Any, None, None, None, None, None, "change the owner of", true},

	{Cordon, Any, Any, None, None, None, None, "cordon, uncordon and annotate nodes", true},
	{Drain, Any, Any, None, None, None, None, "drain nodes", true},
	{Remove, Any, Any, None, None, None, None, "confirm that a node no longer exists", true},

	{ReadQueues, Any, Any, Any, Any, None, None, "see queues", false},
	{ApplyQueues, Any, Any, None, None, None, None, "apply queues", true},

	{ReadTokens, Any, None, None, None, None, None, "list user tokens", false},
	{SetTokens, Any, None, None, None, None, None, "create and revoke user tokens", true},
}

// OfJobs lists the rights that apply to one job.
var OfJobs = []Right{ReadPrivate, ReadLogs, Cancel, Hold, Release, Requeue, Exec, Priority, Limit, Begin,
	ArrayMost, Give}

// All returns all rights in the order of the table.
func All() []Right {
	all := make([]Right, len(lines))
	for i, l := range lines {
		all[i] = l.right
	}
	return all
}

// OfJob reports whether a right applies to one job.
func (r Right) OfJob() bool { return slices.Contains(OfJobs, r) }

// Of returns the scope of the right for a role.
func (r Right) Of(role identity.Role) Reach {
	l := r.line()
	return map[identity.Role]Reach{ // None for all other roles
		identity.RoleAdmin: l.admin, identity.RoleOperator: l.operator, identity.RoleSubmitter: l.submitter,
		identity.RoleViewer: l.viewer, identity.RoleNode: l.node, identity.RoleScheduler: l.scheduler,
	}[role]
}

// Changes reports whether a right permits a change.
func (r Right) Changes() bool { return r.line().changes }

// Words returns the text of the right after "may".
func (r Right) Words() string { return r.line().words }

func (r Right) line() rightRow {
	if i := slices.IndexFunc(lines, func(l rightRow) bool { return l.right == r }); i >= 0 {
		return lines[i]
	}
	return rightRow{}
}

// Who returns a text about which roles have a right, for an error.
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
	identity.RoleScheduler: "schedulers", identity.RoleNode: "nodes", identity.RoleAdmin: "admins",
	identity.RoleOperator: "operators", identity.RoleSubmitter: "submitters", identity.RoleViewer: "viewers",
}

// Mine reports whether this user owns a job with this owner. An empty owner matches no user.
func Mine(name, owner string) bool {
	return owner == name && owner != messages.Anonymous && owner != ""
}
