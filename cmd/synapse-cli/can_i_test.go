package main

import (
	"context"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/rights"
)

// This file tests `auth can-i`.

// WhoAmI answers with the identity that the test set.
func (f *fake) WhoAmI(_ context.Context, q *api.WhoAmI) (*api.WhoAmIReply, error) {
	f.mu.Lock()
	who := f.who
	f.mu.Unlock()
	if who == nil {
		who = &api.WhoAmIReply{Name: messages.Anonymous}
	}
	return who, f.heard(q)
}

// TestCanI checks the answers and the exit codes for rights that the caller has, has for own jobs, and lacks.
func TestCanI(t *testing.T) {
	f := startFake(t)
	cli(f.address, "auth", "can-i", "drain", "nodes").wants(t, 0, "yes\n", "")
	f.who = &api.WhoAmIReply{Cluster: "c", Role: "submitter", Name: "ann", Rights: []*api.Right{
		{Name: "submit"}, {Name: "read-jobs"}, {Name: "cancel", Own: true, OfJob: true}}}
	for id, owner := range map[string]string{"jann1": "ann", "jbob1": "bob"} {
		j := job(id, "running", messages.JobState_JOB_STATE_ACTIVE)
		j.Record.Owner = &messages.Principal{Name: owner}
		f.put(j)
	}
	for line, want := range map[string]result{
		"create jobs": {0, "yes\n", ""}, "create job": {0, "yes\n", ""}, "get pods": {0, "yes\n", ""},
		"cancel": {0, "yes, for your own jobs\n", ""}, "delete job/jann1": {0, "yes\n", ""},
		"cancel job/jbob1": {exit.Failed, "no, the owner of job jbob1 is bob\n", ""},
		"drain nodes":      {exit.Failed, "no\n", ""}, "create tokens -q": {exit.Failed, "", ""},
		"--list": {0, "ann, submitter of cluster c", ""}, "--list get jobs": {exit.Misuse, "", "requires a verb"},
		"read-jobs": {0, "yes\n", ""}, "fly jobs": {exit.Misuse, "", `unknown verb "fly" for jobs`},
		"get moons": {exit.Misuse, "", `unknown type "moons"`}, "cancel job/jxx": {exit.NotFound, "", "unknown job"},
	} {
		cli(f.address, append([]string{"auth", "can-i"}, strings.Fields(line)...)...).wants(t, want.code, want.out, want.err)
	}
}

// TestRightsOfExist checks that each verb names a right that exists.
func TestRightsOfExist(t *testing.T) {
	known := map[string]bool{}
	for _, right := range rights.All() {
		known[string(right)] = true
	}
	for verb, right := range rightsOf {
		if !known[right] {
			t.Errorf("%s: there is no right %q", verb, right)
		}
	}
}
