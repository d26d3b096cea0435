package messages

// This file owns the name of nobody.

// Anonymous is who everybody is until there are identities.
const Anonymous = "anonymous"

// Known is the name of who asks; empty where nobody is named.
func (x *Principal) Known() string {
	if x.GetName() == Anonymous {
		return ""
	}
	return x.GetName()
}
