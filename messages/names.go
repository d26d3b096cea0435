package messages

import "github.com/yi-json/synapse/messages/plain"

// This file has the name of unauthenticated callers, and the owner of a job.

// Anonymous is the owner of every job in a cluster without identities.
const Anonymous = plain.Anonymous

// Known returns the name of the caller, and "" for anonymous.
func (x *Principal) Known() string {
	if x.GetName() == Anonymous {
		return ""
	}
	return x.GetName()
}

// Whose returns the effective owner of a job. If an admin gave a job of anonymous to a user, that user is the effective
// owner. The field owner itself never changes, because it identifies repeated requests.
func (x *JobRecord) Whose() string {
	if to := x.GetGivenTo(); to != "" && x.GetOwner().Known() == "" {
		return to
	}
	return x.GetOwner().GetName()
}
