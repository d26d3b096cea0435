package gateway

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/secretseal"
)

// TestOnlyTheGatewaySaysWhoIsAnOwner checks that the groups and the admin flag of every change come from the
// connection. Values from the client are ignored.
func TestOnlyTheGatewaySaysWhoIsAnOwner(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	who := &api.WhoAmIReply{Name: "bob"}
	v := secretseal.New(filepath.Join(t.TempDir(), secretseal.FileName))
	if _, err := v.Make(); err != nil {
		t.Fatal(err)
	}
	d := r.door(s, Options{
		Store: memory, Scripts: memory, Sealer: v, ClusterID: "c1",
		Leader:    func() Leader { return Leader{Here: true, Epoch: 1} },
		Principal: func(context.Context) *messages.Principal { return &messages.Principal{Name: who.Name} },
		WhoAmI:    func(context.Context) *api.WhoAmIReply { return who },
	})
	if _, err := d.SynapseClient.ApplyQueues(timely(t), &messages.ApplyQueues{Queues: &messages.Queues{
		Queues: []*messages.QueueSpec{{Name: "lab", Owners: []string{"group:ml"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	in := func(spec *messages.JobSpec) *messages.Submit {
		spec.Queue = "lab"
		return &messages.Submit{Spec: spec, AllowInfeasible: true, Exempt: true, Groups: []string{"ml"}}
	}
	job := "" // of bob, in queue lab
	calls := map[string]func() (string, error){
		"Submit": func() (string, error) {
			reply, err := d.SynapseClient.Submit(timely(t), in(gpuJob("a", 1, 1)))
			return reply.GetJob(), err
		},
		"SubmitScript": func() (string, error) {
			reply, err := d.SynapseClient.SubmitScript(timely(t), in(bringing(t, "#!/bin/sh\n")))
			return reply.GetJob(), err
		},
		"SubmitSecret": func() (string, error) {
			reply, err := d.SynapseClient.SubmitSecret(timely(t), in(hushed("a")))
			return reply.GetJob(), err
		},
		"DryRun": func() (string, error) {
			q := in(gpuJob("a", 1, 1))
			_, err := d.SynapseClient.DryRun(timely(t), &messages.DryRun{
				Spec: q.Spec, AllowInfeasible: true, Exempt: q.Exempt, Groups: q.Groups,
			})
			return "", err
		},
		"Update": func() (string, error) {
			_, err := d.SynapseClient.Update(timely(t), &messages.Update{
				Job: job, SetPriority: true, Priority: 1, Exempt: true, Groups: []string{"ml"},
			})
			return "", err
		},
	}
	for _, in := range []*api.WhoAmIReply{
		{Name: "bob", Role: string(identity.RoleSubmitter), Groups: []string{"hr", "ml"}},
		{Name: "bob", Role: string(identity.RoleAdmin)},
	} {
		who = in
		for _, name := range []string{"Submit", "SubmitScript", "SubmitSecret", "DryRun", "Update"} {
			made, err := calls[name]()
			if err != nil {
				t.Fatalf("%s of %v: %v", name, in, err)
			}
			if made != "" {
				job = made
			}
		}
	}
	who = &api.WhoAmIReply{Name: "bob", Role: string(identity.RoleOperator), Groups: []string{"hr"}}
	for name, call := range calls { //order: each is independent
		_, err := call()
		t.Log(name)
		refused(t, err, messages.Code_CODE_NOT_ALLOWED, codes.PermissionDenied,
			"bob may not use queue lab: it is only for group:ml")
	}
}

// TestQueuesClosedToWhoAsks checks that a caller sees which queues it may not use, by the name and groups of its
// connection. An admin may use all queues.
func TestQueuesClosedToWhoAsks(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	who := &api.WhoAmIReply{Name: "eve", Role: "submitter"}
	d := r.door(s, Options{
		Store: memory, ClusterID: "c1",
		Leader:    func() Leader { return Leader{Here: true, Epoch: 1} },
		Principal: func(context.Context) *messages.Principal { return &messages.Principal{Name: who.Name} },
		WhoAmI:    func(context.Context) *api.WhoAmIReply { return who },
	})
	closed := func() string {
		t.Helper()
		reply, err := d.SynapseClient.GetQueues(timely(t), &messages.GetQueues{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(reply.GetBarred(), " ")
	}
	if got := closed(); got != "" {
		t.Errorf("without queues %s are closed", got)
	}
	if _, err := d.SynapseClient.ApplyQueues(timely(t), &messages.ApplyQueues{Queues: &messages.Queues{
		Queues: []*messages.QueueSpec{{Name: "open"}, {Name: "lab", Owners: []string{"ann", "group:ml"}},
			{Name: "leads", Parent: "lab", Owners: []string{"group:leads"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, role string
		groups     []string
		want       string
	}{
		{"ann", "submitter", nil, "leads"}, {"bob", "submitter", nil, "lab leads"},
		{"bob", "operator", []string{"leads"}, "lab leads"}, {"bob", "viewer", []string{"ml", "leads"}, ""},
		{"eve", string(identity.RoleAdmin), nil, ""},
	} {
		who = &api.WhoAmIReply{Name: c.name, Role: c.role, Groups: c.groups}
		if got := closed(); got != c.want {
			t.Errorf("to %s, %s of %v, are closed %q, want %q", c.name, c.role, c.groups, got, c.want)
		}
	}
}
