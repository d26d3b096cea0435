package messages

import (
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/topology"
)

// This file has the reasons why jobs wait: a table of codes, and the one-line text of a reason.

// WaitCode is the code of a reason why a job waits. The word of the code is the first word of the reason, filters lists
// and labels metrics.
type WaitCode uint8

// The codes. A number may change; a word may not.
const (
	WaitNone       WaitCode = iota // the job does not wait, or the code is from a later version
	WaitEvaluating                 // the scheduler has not evaluated the job yet
	WaitResources
	WaitTopology
	WaitNodeSelector
	WaitUser
	WaitInfeasible
	WaitPriority
	WaitQueueLimit
	WaitHeld
	WaitBeginTime
	WaitDependency
	WaitArray
	WaitArrayLimit
	WaitPrepare
	WaitLaunch
	WaitBackoff
	WaitUnconfirmed
	WaitUserID
	WaitRecovering
	WaitHalted
	WaitStore
	WaitCodes // number of codes
)

// WaitReason holds the word of a code, and the matching word of Slurm.
type WaitReason struct{ Word, Slurm string }

// WaitReasons is the table of all codes.
var WaitReasons = [WaitCodes]WaitReason{
	WaitNone:         {"", "None"},
	WaitEvaluating:   {"Evaluating", "None"},
	WaitResources:    {"Resources", "Resources"},
	WaitTopology:     {"Topology", "Resources"},
	WaitNodeSelector: {"NodeSelector", "BadConstraints"},
	WaitUser:         {"User", "BadConstraints"},
	WaitInfeasible:   {"Infeasible", "BadConstraints"},
	WaitPriority:     {"Priority", "Priority"},
	WaitQueueLimit:   {"QueueLimit", "QOSResourceLimit"},
	WaitHeld:         {"Held", "JobHeldAdmin"},
	WaitBeginTime:    {"BeginTime", "BeginTime"},
	WaitDependency:   {"Dependency", "Dependency"},
	WaitArray:        {"Array", "Resources"},
	WaitArrayLimit:   {"ArrayLimit", "JobArrayTaskLimit"},
	WaitPrepare:      {"Prepare", "JobLaunchFailure"},
	WaitLaunch:       {"Launch", "JobLaunchFailure"},
	WaitBackoff:      {"Backoff", "BeginTime"},
	WaitUnconfirmed:  {"Unconfirmed", "Cleaning"},
	WaitUserID:       {"UserID", "Resources"},
	WaitRecovering:   {"Recovering", "None"},
	WaitHalted:       {"Halted", "SystemFailure"},
	WaitStore:        {"Store", "SystemFailure"},
}

// WaitText holds the meaning of a code, and a suggestion for the user.
type WaitText struct{ Meaning, Fix string }

// WaitTexts has the documentation of all codes. The programs do not use these texts.
var WaitTexts = [WaitCodes]WaitText{
	WaitNone: {
		"The job does not wait.",
		"",
	},
	WaitEvaluating: {
		"The scheduler has not evaluated the job yet.",
		"Wait a second.",
	},
	WaitResources: {
		"Not enough GPUs, CPUs or memory are free now.",
		"Run `synapse-cli explain JOB`. It shows which jobs use these resources, when they end, and which change " +
			"would let the job start now.",
	},
	WaitTopology: {
		"No domain of the topology level that the job requires or prefers has enough free resources.",
		"Wait, or request a coarser level.",
	},
	WaitNodeSelector: {
		"No node has the GPU type, the labels or the name that the job requests.",
		"Compare the job with `synapse-cli get nodes -o wide`.",
	},
	WaitUser: {
		"No node runs jobs of this owner as the requested user.",
		"Omit `user`, or ask an administrator to map the owner to an account.",
	},
	WaitInfeasible: {
		"The job can never start on the nodes that the cluster knows, even if all of them are " +
			"idle.",
		"Request less, or add nodes.",
	},
	WaitPriority: {
		"Nodes are free, but earlier or shorter jobs start first.",
		"Wait, or set a time limit, so that the job can be backfilled if it ends before a reservation starts.",
	},
	WaitQueueLimit: {
		"The queue has reached its limit, or the owner of the job has reached a limit in this queue.",
		"Wait until jobs of the queue end, or submit to another queue.",
	},
	WaitHeld: {
		"A user or an administrator has put the job on hold.",
		"Run `synapse-cli release JOB`.",
	},
	WaitBeginTime: {
		"The `begin` of the job is in the future.",
		"Wait, or change it with `synapse-cli update JOB --begin now`.",
	},
	WaitDependency: {
		"The job waits for the end of other jobs (`after`).",
		"Wait for the jobs that the reason names.",
	},
	WaitArray: {
		"Elements of the array wait. The reason has the number of elements in each state.",
		"Run `synapse-cli get jobs --array JOB`: each element has its own reason.",
	},
	WaitArrayLimit: {
		"The maximum number of elements of the array is running.",
		"Wait, or raise the limit of the array.",
	},
	WaitPrepare: {
		"The last attempt failed before its tasks started: the image, a mount or the user is " +
			"wrong.",
		"Read the reason, fix the job, or wait for the next attempt.",
	},
	WaitLaunch: {
		"The last attempt failed because a node could not start a task.",
		"Read the reason. The scheduler tries other nodes.",
	},
	WaitBackoff: {
		"The last attempt ended early. The next attempt starts at the time in the reason.",
		"Wait, or read the logs of the last attempt.",
	},
	WaitUnconfirmed: {
		"The last attempt may still run on a node that does not answer.",
		"Bring the node back, or run `synapse-cli remove NODE` if it is gone for good.",
	},
	WaitUserID: {
		"No user ID is free for the job, or jobs of the owner use the owner's complete share of user IDs.",
		"Wait, set `user` in the job, or ask an administrator for a larger range `--uids`.",
	},
	WaitRecovering: {
		"A new leader waits a few seconds for the reports of its nodes.",
		"Wait.",
	},
	WaitHalted: {
		"The scheduler starts no jobs, because nodes report newer tasks than its records have.",
		"An administrator must read the scheduler's log.",
	},
	WaitStore: {
		"The database does not accept writes.",
		"An administrator must repair the database.",
	},
}

// String returns the word of a code.
func (c WaitCode) String() string {
	if c >= WaitCodes {
		return ""
	}
	return WaitReasons[c].Word
}

// WaitCodeOf returns the code with this word, and WaitNone for an unknown word.
func WaitCodeOf(word string) WaitCode {
	for c := range WaitCodes {
		if WaitReasons[c].Word == word {
			return c
		}
	}
	return WaitNone
}

// ReasonColumns is the largest width of a reason.
const ReasonColumns = 60

// Reason holds the code and the text of a reason why a job waits. The text begins with the code's word.
type Reason struct {
	Code WaitCode
	Text string
}

// Because returns a reason with the text, cut to ReasonColumns. It appends each fact of more that still fits.
func (c WaitCode) Because(text string, more ...string) Reason {
	return c.says(c.String()+": "+text, more)
}

// HeldBy returns the reason of a job that a user holds.
func HeldBy(by, why string) Reason {
	text := WaitHeld.String() + " by " + topology.Cut(OneLine(by), nameColumns)
	if why != "" {
		text += ": " + why
	}
	return WaitHeld.says(text, nil)
}

// HeldInArray returns the reason of an element whose array is held.
func HeldInArray(array string) Reason { return WaitHeld.Because("its array " + array + " is held") }

func (c WaitCode) says(text string, more []string) Reason {
	text = topology.Cut(OneLine(strings.TrimSpace(text)), ReasonColumns)
	for _, fact := range more {
		fact = OneLine(fact)
		if fact != "" && utf8.RuneCountInString(text)+2+utf8.RuneCountInString(fact) <= ReasonColumns {
			text += ", " + fact
		}
	}
	return Reason{c, text}
}

// Around returns a reason of text and end. It shortens the text so that end fits.
func (c WaitCode) Around(text, end string) Reason {
	room := ReasonColumns - utf8.RuneCountInString(c.String()+": "+end)
	return c.Because(topology.Cut(OneLine(strings.TrimSpace(text)), room) + end)
}

// Because stores a reason in a status.
func (x *JobStatus) Because(r Reason) { x.Reason, x.ReasonCode = r.Text, r.Code.String() }

// With appends a fact to a reason if it fits.
func (r Reason) With(fact string) Reason { return r.Code.says(r.Text, []string{fact}) }

// Why returns the text without the code's word.
func (r Reason) Why() string { return strings.TrimPrefix(r.Text, r.Code.String()+": ") }

// nameColumns is the largest width of a name inside a reason.
const nameColumns = 20

// WhyRefused returns the reason for a refusal. An empty refusal means that the gang waits only for its turn.
func WhyRefused(r *topology.Refusal) Reason {
	if *r == (topology.Refusal{}) {
		return WaitPriority.Because("nodes are reserved for earlier jobs")
	}
	text, more := r.Short()
	return RefusalCode(r).Because(text, more...)
}

// NeverReason returns the reason of a gang that can never start.
func NeverReason(r *topology.Refusal) Reason {
	text, more := r.Short()
	return WaitInfeasible.Because(text, more...)
}

// RefusalCode returns the code for a refusal.
func RefusalCode(r *topology.Refusal) WaitCode {
	switch {
	case r.Cause == topology.NoMatch && r.Refused:
		return WaitUser
	case r.Cause == topology.NoMatch:
		return WaitNodeSelector
	case r.Cause != topology.NoRoom, r.Idle:
		return WaitInfeasible
	case r.Patient, r.Level != "":
		return WaitTopology
	}
	return WaitResources
}

// ShortName returns the label of a job inside a reason: its name, its short ID and its owner. The label omits an empty
// name or owner.
func ShortName(id, name, owner string) string {
	name, owner = OneLine(name), OneLine(owner)
	about := id
	if owner != "" {
		about += ", " + topology.Cut(owner, nameColumns)
	}
	if name == "" || name == id {
		if owner == "" {
			return id
		}
		return id + " (" + topology.Cut(owner, nameColumns) + ")"
	}
	return topology.Cut(name, nameColumns) + " (" + about + ")"
}

// shortID is the minimum length of a short ID.
const shortID = 6

// ShortID returns the shortest prefix of an ID, of at least 6 characters, that is not a prefix of another ID. It
// returns the full ID of an element, because a prefix of it is ambiguous.
func ShortID(id string, others ...string) string {
	if _, _, element := ArrayOf(id); element {
		return id
	}
	n := min(shortID, len(id))
	for n < len(id) {
		same := false
		for _, other := range others {
			same = same || other != id && strings.HasPrefix(other, id[:n])
		}
		if !same {
			break
		}
		n++
	}
	return id[:n]
}
