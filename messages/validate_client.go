package messages

import (
	"fmt"
	"math"
	"strings"
)

// This file has the checks of client requests and replies.

// Validate refuses an invalid job.
func (x *Submit) Validate() error {
	return first(
		caller(x.GetPrincipal()),
		idOrNone("request_id", x.GetRequestId()),
		idOrNone("job", x.GetJob()),
		in("spec", x.GetSpec().ValidateNew()),
		in("spec", x.GetSpec().without()),
		x.validSealed(),
		groups(x.GetGroups()),
		webSource(x.GetWebSource()),
	)
}

// WebAgain is the web_source of a copy of a job.
const WebAgain = "again"

// webSource refuses a text that is neither empty, nor the hash of a job file, nor WebAgain.
func webSource(s string) error {
	hash, is := strings.CutPrefix(s, "sha256:")
	if s == "" || s == WebAgain || is && len(hash) == 64 && only(hash, hexDigit) {
		return nil
	}
	return refuse("web_source", "is not a source of the web UI", "leave it empty")
}

// validSealed refuses secrets without values, because the tasks would have none.
func (x *Submit) validSealed() error {
	if len(x.GetSpec().GetSecrets()) > 0 && len(x.GetSealed()) == 0 {
		return refuse("spec.secrets", "need their values", "use SubmitSecret")
	}
	return between("sealed", int64(len(x.GetSealed())), 0, maxSealedBytes)
}

// Validate refuses an invalid job.
func (x *DryRun) Validate() error {
	return first(
		caller(x.GetPrincipal()),
		in("spec", x.GetSpec().ValidateNew()),
		in("spec", x.GetSpec().without()),
		groups(x.GetGroups()),
		webSource(x.GetWebSource()),
	)
}

// Validate refuses a request without a job.
func (x *Cancel) Validate() error {
	return first(
		caller(x.GetPrincipal()),
		id("job", x.GetJob()),
		reason(x.GetReason()),
	)
}

// Validate refuses a request without a job.
func (x *Hold) Validate() error {
	return first(
		caller(x.GetPrincipal()),
		id("job", x.GetJob()),
		reason(x.GetReason()),
	)
}

// Validate refuses a request without a job, and a negative attempt number.
func (x *Requeue) Validate() error {
	if x.GetRun() < 0 {
		return refuse("run", fmt.Sprintf("is %d", x.GetRun()), "use a number from 1, or 0 for the current attempt")
	}
	return first(
		caller(x.GetPrincipal()),
		id("job", x.GetJob()),
		reason(x.GetReason()),
	)
}

// Validate refuses a request without a change, and changes to invalid values.
func (x *Update) Validate() error {
	if !x.GetSetPriority() && !x.GetSetTimeLimit() && !x.GetSetBegin() && !x.GetSetDeadline() && !x.GetSetArrayMost() &&
		x.GetGiveTo() == "" {
		return refuse("set_priority", "must be set, since no other change is requested",
			"set a priority, a time limit, a begin, a deadline, an array limit or an owner")
	}
	if x.GetGiveTo() == Anonymous {
		return refuse("give_to", "cannot be "+Anonymous, "name a user")
	}
	return first(
		caller(x.GetPrincipal()),
		id("job", x.GetJob()),
		between("priority", int64(x.GetPriority()), -MaxPriority, MaxPriority),
		duration("time_limit_ms", x.GetTimeLimitMs()),
		between("begin_unix_ms", x.GetBeginUnixMs(), 0, MaxTimeUnixMs),
		between("deadline_unix_ms", x.GetDeadlineUnixMs(), 0, MaxTimeUnixMs),
		between("array_most", int64(x.GetArrayMost()), 0, MaxElements),
		idOrNone("give_to", x.GetGiveTo()),
		reason(x.GetReason()),
		groups(x.GetGroups()),
	)
}

// Validate refuses an invalid change of a node. A cordon and a drain need a reason, because a later operator must know
// why the node gets no work.
func (x *ChangeNode) Validate() error {
	verb := x.GetVerb()
	if _, ok := NodeVerb_name[int32(verb)]; !ok {
		return refuse("verb", fmt.Sprintf("unsupported value %d", verb), "upgrade the scheduler: the client is newer")
	}
	closes := verb == NodeVerb_NODE_VERB_CORDON || verb == NodeVerb_NODE_VERB_DRAIN
	if closes && x.GetReason() == "" {
		return refuse("reason", "is missing", "give the reason for the change")
	}
	if x.GetDeadlineMs() != 0 && verb != NodeVerb_NODE_VERB_DRAIN {
		return refuse("deadline_ms", "is allowed for a drain only", "")
	}
	if x.GetAtUnixMs() != 0 && verb != NodeVerb_NODE_VERB_DRAIN {
		return refuse("at_unix_ms", "is allowed for a drain only", "")
	}
	return first(
		caller(x.GetPrincipal()),
		id("node", x.GetNode()),
		said("verb", verb),
		reason(x.GetReason()),
		duration("deadline_ms", x.GetDeadlineMs()),
		between("at_unix_ms", x.GetAtUnixMs(), 0, MaxTimeUnixMs),
	)
}

// Validate refuses a request without a job.
func (x *GetJob) Validate() error {
	return first(caller(x.GetPrincipal()), id("job", x.GetJob()))
}

// Validate refuses a request without a job, or with an invalid spec.
func (x *ExplainJob) Validate() error {
	if x.GetSpec() != nil {
		if x.GetJob() != "" {
			return refuse("job", "cannot be combined with a spec", "use one of them")
		}
		return first(caller(x.GetPrincipal()), in("spec", x.GetSpec().ValidateNew()),
			in("spec", x.GetSpec().without()))
	}
	return first(caller(x.GetPrincipal()), id("job", x.GetJob()))
}

// Validate refuses an invalid filter or page.
func (x *ListJobs) Validate() error {
	if len(x.GetPhases()) > maxFilterValues {
		return refuse("phases", fmt.Sprintf("has %d entries, more than %d", len(x.GetPhases()), maxFilterValues), "")
	}
	for i, p := range x.GetPhases() {
		if err := given("", p, MaxNameBytes); err != nil {
			return in("phases", at(i, err))
		}
	}
	return first(
		caller(x.GetPrincipal()),
		text("owner", x.GetOwner(), MaxValueBytes),
		nameOrNone("queue", x.GetQueue()),
		nameOrTitle("name", x.GetName()),
		labels("labels", x.GetLabels()),
		idOrNone("after", x.GetAfter()),
		idOrNone("array", x.GetArray()),
		between("limit", int64(x.GetLimit()), 0, MaxPageEntries),
	)
}

// Validate refuses an invalid filter or page.
func (x *ListNodes) Validate() error {
	return first(
		caller(x.GetPrincipal()),
		idOrNone("after", x.GetAfter()),
		idOrNone("node", x.GetNode()),
		between("limit", int64(x.GetLimit()), 0, MaxPageEntries),
	)
}

// Validate refuses a watch of neither jobs nor nodes, and invalid filters.
func (x *Watch) Validate() error {
	if !x.GetJobs() && !x.GetNodes() {
		return refuse("jobs", "must be set, since nodes is not set", "set jobs, nodes or both")
	}
	if len(x.GetIds()) > maxFilterValues {
		return refuse("ids", fmt.Sprintf("has %d entries, more than %d", len(x.GetIds()), maxFilterValues),
			"omit the list to watch all")
	}
	for i, named := range x.GetIds() {
		if err := id("", named); err != nil {
			return in("ids", at(i, err))
		}
	}
	return first(
		caller(x.GetPrincipal()),
		text("owner", x.GetOwner(), MaxValueBytes),
		nameOrNone("queue", x.GetQueue()),
		labels("labels", x.GetLabels()),
		idOrNone("array", x.GetArray()),
	)
}

// Validate accepts every Unwatch.
func (x *Unwatch) Validate() error { return nil }

// Validate refuses an event without content.
func (x *Event) Validate() error {
	switch {
	case x.GetJob() != nil && x.GetNode() != nil:
		return refuse("node", "cannot be combined with job", "use one of them")
	case x.GetJob() != nil:
		return in("job", x.GetJob().valid())
	case x.GetNode() != nil:
		return in("node", x.GetNode().valid())
	case x.GetGroup() == 0 && !x.GetSynced():
		return refuse("job", "must be set if node is not set", "")
	}
	return nil
}

// valid checks the outcome of a reply. An error must have a text.
func (x *Outcome) valid() error {
	if x.GetCode() != Code_CODE_OK && x.GetText() == "" {
		return refuse("text", "is required in a refusal", "")
	}
	return said("code", x.GetCode())
}

// Validate refuses a reply without an outcome.
func (x *SubmitReply) Validate() error { return answered(x.GetOutcome(), "job", x.GetJob()) }

// Validate refuses a reply without an outcome.
func (x *DryRunReply) Validate() error {
	return first(
		part("outcome", x.GetOutcome()),
		between("nodes", int64(len(x.GetNodes())), 0, MaxDryRunNodes),
		between("free_unix_ms", x.GetFreeUnixMs(), 0, math.MaxInt64),
	)
}

// MaxDryRunNodes limits the nodes in a DryRunReply.
const MaxDryRunNodes = 32

// Validate refuses a reply without an outcome.
func (x *CancelReply) Validate() error { return answered(x.GetOutcome(), "job", x.GetJob()) }

// Validate refuses a reply without an outcome.
func (x *HoldReply) Validate() error { return answered(x.GetOutcome(), "job", x.GetJob()) }

// Validate refuses a reply without an outcome.
func (x *UpdateReply) Validate() error { return answered(x.GetOutcome(), "job", x.GetJob()) }

// Validate refuses a reply without an outcome.
func (x *ChangeNodeReply) Validate() error { return answered(x.GetOutcome(), "node", x.GetNode()) }

// answered checks a reply. A successful reply must name its job or node.
func answered(o *Outcome, field, named string) error {
	err := part("outcome", o)
	if o.GetCode() == Code_CODE_OK {
		err = first(err, id(field, named))
	}
	return err
}

// Validate refuses a reply without an outcome, and a negative attempt number.
func (x *RequeueReply) Validate() error {
	if x.GetRun() < 0 {
		return refuse("run", fmt.Sprintf("is %d", x.GetRun()), "")
	}
	return answered(x.GetOutcome(), "job", x.GetJob())
}

// Validate refuses a reply without an outcome, and a successful reply without a job.
func (x *GetJobReply) Validate() error {
	err := part("outcome", x.GetOutcome())
	if x.GetOutcome().GetCode() == Code_CODE_OK {
		err = first(err, part("job", x.GetJob()))
	}
	return err
}

// Validate refuses a reply without an outcome.
func (x *ExplainJobReply) Validate() error { return part("outcome", x.GetOutcome()) }

// Validate refuses a reply without an outcome, or with an invalid job.
func (x *ListJobsReply) Validate() error {
	return first(
		part("outcome", x.GetOutcome()),
		parts("jobs", x.GetJobs(), 0, MaxPageEntries),
		idOrNone("next", x.GetNext()),
	)
}

// Validate refuses a reply without an outcome, or with an invalid node.
func (x *ListNodesReply) Validate() error {
	return first(
		part("outcome", x.GetOutcome()),
		parts("nodes", x.GetNodes(), 0, MaxPageEntries),
		idOrNone("next", x.GetNext()),
	)
}

func (x *JobStatus) valid() error {
	return first(
		in("record", id("id", x.GetRecord().GetId())),
		given("phase", x.GetPhase(), MaxNameBytes),
	)
}

func (x *NodeStatus) valid() error {
	return first(
		in("record", id("id", x.GetRecord().GetId())),
		given("phase", x.GetPhase(), MaxNameBytes),
	)
}

// Validate refuses an unknown kind, and an invalid number of days.
func (x *GetEfficiency) Validate() error {
	return first(
		caller(x.GetPrincipal()), between("kind", int64(x.GetKind()), 0, int64(GpuTimeKind_GPU_TIME_KIND_QUEUE)),
		between("days", int64(x.GetDays()), 0, maxGPUTimeRows),
	)
}

// Validate refuses a reply without an outcome.
func (x *GetEfficiencyReply) Validate() error { return part("outcome", x.GetOutcome()) }
