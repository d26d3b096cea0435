package messages

// This file owns the name of nobody.

// Anonymous is the owner of every job if there are no identities.
const Anonymous = "anonymous"

// Known is the name of who asks; empty where nobody is named.
func (x *Principal) Known() string {
	if x.GetName() == Anonymous {
		return ""
	}
	return x.GetName()
}

// Whose is the person whose a job is: its owner, or whom it was given to that came in before there were identities. The
// owner itself never changes, because a request is known by it.
func (x *JobRecord) Whose() string {
	if to := x.GetGivenTo(); to != "" && x.GetOwner().Known() == "" {
		return to
	}
	return x.GetOwner().GetName()
}
