package rights

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file defines which rights each call needs.

// need is a right that a call needs, either always or only if a field of its request has a value.
type need struct {
	call  string
	field string // path with dots; empty: always
	value string // text of an enum or bool value; set: any value except the default
	right Right
}

const set = "*"

const (
	synapse  = "/synapse.v1.Synapse/"
	health   = "/grpc.health.v1.Health/"
	LinkCall = "/remote.Remoting/Receive"
)

// needs is the table. A request that matches no line is refused, so that a new verb is refused until it gets a
// line.
var needs = slices.Concat([]need{
	{LinkCall, "", "", Link},
	{health + "Check", "", "", Health},
	{health + "Watch", "", "", Health},
	{health + "List", "", "", Health},
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", "", Reflect},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "", "", Reflect},
	{synapse + "Cluster", "", "", Known},
	{synapse + "WhoAmI", "", "", Known},

	{synapse + "GetJob", "", "", ReadJobs},
	{synapse + "ListJobs", "", "", ReadJobs},
	{synapse + "ExplainJob", "", "", ReadJobs},
	{synapse + "History", "", "", ReadJobs},
	{synapse + "ListNodes", "", "", ReadMachines},
	{synapse + "GetQueues", "", "", ReadQueues},
	{synapse + "GetEfficiency", "", "", ReadQueues},
	{synapse + "Watch", "", "", ReadJobs},
	{synapse + "Watch", "nodes", "true", ReadMachines},
	{synapse + "ReadLogs", "", "", ReadLogs},
	{synapse + "ReadPast", "", "", ReadJobs},
	{synapse + "ReadPast", "", "", ReadMachines},
	{synapse + "ReadPast", "", "", ReadQueues},
	{synapse + "ReadScript", "", "", ReadScript},
	{synapse + "ReadSecrets", "", "", ReadSecrets},

	{"/v1.Scheduler/SubmitJob", "", "", Submit},
	{"/v1.Scheduler/SubmitJob", "image", set, SubmitImage},

	{synapse + "Cancel", "", "", Cancel},
	{synapse + "Hold", "release", "false", Hold},
	{synapse + "Hold", "release", "true", Release},
	{synapse + "Requeue", "", "", Requeue},
	{synapse + "Checkpoint", "", "", Requeue},
	{synapse + "Exec", "", "", Exec},
	{synapse + "Carry", "", "", Carry},
	{synapse + "Reach", "", "", ExecInGang},
	{synapse + "OwnJob", "verb", "OWN_VERB_SHOW", ReadOwn},
	{synapse + "OwnJob", "verb", "OWN_VERB_REQUEUE", ChangeOwn},
	{synapse + "OwnJob", "verb", "OWN_VERB_REQUEUE_HOLD", ChangeOwn},
	{synapse + "OwnJob", "verb", "OWN_VERB_CANCEL", ChangeOwn},
	{synapse + "Requeue", "hold", "true", Hold},
	{synapse + "Update", "set_priority", "true", Priority},
	{synapse + "Update", "set_time_limit", "true", Limit},
	{synapse + "Update", "set_begin", "true", Begin},
	{synapse + "Update", "set_deadline", "true", Begin},
	{synapse + "Update", "set_array_most", "true", ArrayMost},
	{synapse + "Update", "give_to", set, Give},

	{synapse + "ChangeNode", "verb", "NODE_VERB_CORDON", Cordon},
	{synapse + "ChangeNode", "verb", "NODE_VERB_UNCORDON", Cordon},
	{synapse + "ChangeNode", "verb", "NODE_VERB_NOTE", Cordon},
	{synapse + "ChangeNode", "verb", "NODE_VERB_DRAIN", Drain},
	{synapse + "ChangeNode", "verb", "NODE_VERB_REMOVE", Remove},
	{synapse + "ApplyQueues", "", "", ApplyQueues},
	{synapse + "CreatePass", "", "", SetTokens},
	{synapse + "RevokePass", "", "", SetTokens},
	{synapse + "ListPasses", "", "", ReadTokens},
}, submits("Submit"), submits("SubmitScript"), submits("SubmitSecret"), submits("DryRun"),
	copies("Submit"), copies("SubmitScript"), copies("SubmitSecret"))

// submits returns the lines of a call that submits a job.
func submits(call string) []need {
	return []need{
		{synapse + call, "", "", Submit},
		{synapse + call, "spec.user", set, SubmitUser},
		{synapse + call, "spec.mounts", set, SubmitMounts},
		{synapse + call, "spec.image", set, SubmitImage},
		{synapse + call, "spec.queue", set, SubmitQueue},
		{synapse + call, "web_source", set, SubmitWeb},
	}
}

// copies returns the lines of a call that submits a copy of a job. The copy contains the environment and the command
// of the job, and may contain everything for which a submit needs a right.
func copies(call string) []need {
	return []need{
		{synapse + call, "job", set, ReadPrivate},
		{synapse + call, "job", set, SubmitUser},
		{synapse + call, "job", set, SubmitMounts},
		{synapse + call, "job", set, SubmitImage},
		{synapse + call, "job", set, SubmitQueue},
	}
}

// Brings reports whether a call submits a job that is stored.
func Brings(call string) bool {
	return call != synapse+"DryRun" && slices.Contains(Opens(call), Submit)
}

// Opens returns the rights that a call needs before its request is read. If there are none, the request decides.
func Opens(call string) (all []Right) {
	for _, n := range needs {
		if n.call == call && n.field == "" {
			all = append(all, n.right)
		}
	}
	return all
}

// Continues reports whether only the first request of a call is checked, and later requests continue it.
func Continues(call string) bool {
	return call == synapse+"Exec" || call == synapse+"Carry" || call == synapse+"Reach"
}

// Decided reports whether the table has a line for a call.
func Decided(call string) bool {
	return slices.ContainsFunc(needs, func(n need) bool { return n.call == call })
}

// Needed returns the rights that a request needs, without duplicates. If there are none, no role may make the
// request.
func Needed(call string, request proto.Message) (all []Right) {
	for _, n := range needs {
		if n.call == call && (n.field == "" || n.fits(request.ProtoReflect())) && !slices.Contains(all, n.right) {
			all = append(all, n.right)
		}
	}
	return all
}

// fits reports whether the field has the value. Fields of an unset message are unset.
func (n need) fits(m protoreflect.Message) bool {
	path := strings.Split(n.field, ".")
	for i, name := range path {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if f == nil {
			return false
		}
		if i < len(path)-1 {
			m = m.Get(f).Message()
			continue
		}
		switch {
		case n.value == set:
			return m.Has(f)
		case f.Kind() == protoreflect.BoolKind:
			return m.Get(f).Bool() == (n.value == "true")
		case f.Kind() == protoreflect.EnumKind:
			v := f.Enum().Values().ByNumber(m.Get(f).Enum())
			return v != nil && string(v.Name()) == n.value
		}
	}
	return false
}
