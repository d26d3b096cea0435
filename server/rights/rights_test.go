package rights

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// services returns the descriptors of the services.
func services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	for _, m := range []proto.Message{&api.ClusterReply{}, &api.SubmitJobRequest{}} {
		file := m.ProtoReflect().Descriptor().ParentFile()
		for i := range file.Services().Len() {
			all = append(all, file.Services().Get(i))
		}
	}
	return all
}

// TestEveryCallIsDecided checks that every call and every value of a verb has a line in the table. A new one is
// refused for every role until it has a line.
func TestEveryCallIsDecided(t *testing.T) {
	known := map[string]protoreflect.MethodDescriptor{}
	for _, s := range services() {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			call := "/" + string(s.FullName()) + "/" + string(m.Name())
			known[call] = m
			if !Decided(call) {
				t.Errorf("%s: no line says who may make it", call)
			}
		}
	}
	for _, n := range needs {
		m := known[n.call]
		if m == nil || n.field == "" {
			continue
		}
		at := m.Input()
		path := strings.Split(n.field, ".")
		for i, name := range path {
			f := at.Fields().ByName(protoreflect.Name(name))
			if f == nil {
				t.Fatalf("%s: its request has no field %s", n.call, n.field)
			}
			if at = f.Message(); i == len(path)-1 && f.Kind() == protoreflect.EnumKind {
				for j := 1; j < f.Enum().Values().Len(); j++ { // the first value is UNSPECIFIED, which no role may use
					v := string(f.Enum().Values().Get(j).Name())
					same := func(o need) bool { return o.call == n.call && o.field == n.field && o.value == v }
					if !slices.ContainsFunc(needs, same) {
						t.Errorf("%s: no line is for %s", n.call, v)
					}
				}
			}
		}
	}
	for _, n := range needs {
		if strings.HasPrefix(n.call, synapse) && known[n.call] == nil {
			t.Errorf("%s: there is no such call", n.call)
		}
		if !slices.Contains(All(), n.right) {
			t.Errorf("%s needs %q, which is no right", n.call, n.right)
		}
	}
	if Decided(synapse+"Unheard") || len(Needed(synapse+"ChangeNode", &messages.ChangeNode{})) != 0 {
		t.Error("what no line is for is allowed to somebody")
	}
}

// TestReaches checks that only rights about one job have the scope Own, and that no two roles are equal.
func TestReaches(t *testing.T) {
	seen := map[string]identity.Role{}
	for _, role := range identity.Roles {
		word := ""
		for _, right := range All() {
			reach := right.Of(role)
			word += string(rune('0' + reach))
			if reach == Own && !right.OfJob() {
				t.Errorf("%s: %s is not about a job, and %s has it for his own", right, right, role)
			}
		}
		if other, ok := seen[word]; ok {
			t.Errorf("%s may do what %s may", role, other)
		}
		seen[word] = role
	}
	if Right("no such").Of(identity.RoleAdmin) != None || Cancel.Of("king") != None {
		t.Error("what is not in the table is allowed to somebody")
	}
	if Mine(messages.Anonymous, messages.Anonymous) || Mine("", "") || !Mine("ann", "ann") {
		t.Error("whose a job is")
	}
}

// TestEveryFieldIsDecided checks that every field of an answer has an entry. A field without an entry is visible
// only to admins.
func TestEveryFieldIsDecided(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(m protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || m.ParentFile().Package() != scope {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if bars()[m.FullName()][f.Name()] == undecided {
				t.Errorf("%s.%s: nobody has decided who is shown it", m.Name(), f.Name())
			}
			if f.Message() != nil {
				look(f.Message())
			}
		}
	}
	for _, s := range services() {
		for i := range s.Methods().Len() {
			look(s.Methods().Get(i).Output())
		}
	}
	for _, s := range shown {
		name := protoreflect.FullName(scope + "." + s.message)
		if !seen[name] {
			t.Errorf("%s: no answer has it", s.message)
		}
		words := strings.Fields(s.open + " " + s.private + " " + s.ids)
		for _, u := range unshown {
			if u.message == s.message {
				words = append(words, u.field)
			}
		}
		if len(words) != len(bars()[name]) {
			t.Errorf("%s: a field stands there twice", s.message)
		}
	}
}

// secret is the value of every field that is not open.
const secret = "hush"

func job(owner string) *messages.JobStatus {
	return &messages.JobStatus{Phase: messages.PhaseRunning, Record: &messages.JobRecord{
		Id: "j1", Owner: &messages.Principal{Name: owner}, RequestId: secret, RequestHash: []byte(secret),
		Spec: &messages.JobSpec{
			Name: "train", Command: []string{secret}, Env: []*messages.EnvVar{{Name: "TOKEN", Value: secret}},
			Script: &messages.Script{Name: secret, Digest: secret, Args: []string{secret}},
		},
	}}
}

// TestShow checks that env, command and script of another user's job are removed from every answer, and node IDs
// for all roles except admin. The original message stays unchanged.
func TestShow(t *testing.T) {
	place := &messages.AttemptRecord{Places: []*messages.Place{{Node: "n1", MachineId: secret}}}
	node := &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1", MachineId: secret, BootId: secret}}
	for name, answer := range map[string]func(owner string) proto.Message{
		"one": func(owner string) proto.Message { return &messages.GetJobReply{Job: job(owner)} },
		"list": func(owner string) proto.Message {
			return &messages.ListJobsReply{Jobs: []*messages.JobStatus{job(owner)}}
		},
		"watch": func(owner string) proto.Message { return &messages.Event{Job: job(owner)} },
	} {
		for _, c := range []struct {
			role  identity.Role
			owner string
			shown bool
		}{
			{identity.RoleAdmin, "bob", true}, {identity.RoleAdmin, messages.Anonymous, true},
			{identity.RoleOperator, "ann", true}, {identity.RoleOperator, "bob", false},
			{identity.RoleSubmitter, "ann", true}, {identity.RoleSubmitter, "bob", false},
			{identity.RoleSubmitter, messages.Anonymous, false},
			{identity.RoleViewer, "ann", true}, {identity.RoleViewer, "bob", false}, {identity.RoleNode, "ann", false},
		} {
			whole := answer(c.owner)
			before := proto.Clone(whole)
			got := Show(identity.Identity{Cluster: "c", Role: c.role, Name: "ann"}, whole)
			text := got.Message.(interface{ String() string }).String()
			if strings.Contains(text, secret) != c.shown || !strings.Contains(text, "train") {
				t.Errorf("%s: %s is shown of %s's job: %s", name, c.role, c.owner, text)
			}
			if strings.Contains(text, "withheld:true") == c.shown {
				t.Errorf("%s: %s is not told what is left out of %s's job: %s", name, c.role, c.owner, text)
			}
			if !proto.Equal(whole, before) {
				t.Fatalf("%s: the original has changed", name)
			}
			if foreign := c.shown && c.owner != "ann"; foreign != slices.Equal(got.Foreign, []string{c.owner}) {
				t.Errorf("%s: %s, of %s: read of %v", name, c.role, c.owner, got.Foreign)
			}
		}
	}
	for _, whole := range []proto.Message{
		&messages.GetJobReply{Attempts: []*messages.AttemptRecord{place}},
		&messages.GetJobReply{Job: &messages.JobStatus{Attempt: place}},
		&messages.ListNodesReply{Nodes: []*messages.NodeStatus{node}}, &messages.Event{Node: node},
		&messages.HistoryReply{Jobs: []*messages.PastJob{{Attempts: []*messages.PastAttempt{{Places: place.Places}}}}},
	} {
		for _, role := range identity.People {
			text := Show(identity.Identity{Role: role, Name: "ann"}, whole).Message.(interface{ String() string }).String()
			if strings.Contains(text, secret) != (role == identity.RoleAdmin) || !strings.Contains(text, "n1") {
				t.Errorf("%s is shown %s", role, text)
			}
		}
	}
}

// TestUndecided checks that fields without an entry are removed.
func TestUndecided(t *testing.T) {
	v := viewer{Identity: identity.Identity{Role: identity.RoleOperator, Name: "ann"}}
	out, _ := v.message((&messages.Hello{ClusterId: secret}).ProtoReflect(), "ann")
	if !proto.Equal(out.Interface(), &messages.Hello{}) {
		t.Errorf("%v", out.Interface())
	}
}

// BenchmarkShow measures the filtering of a page of a list, for an admin, who sees everything, and for a viewer.
func BenchmarkShow(b *testing.B) {
	page := &messages.ListJobsReply{}
	for range 500 {
		page.Jobs = append(page.Jobs, job("bob"))
	}
	for _, role := range []identity.Role{identity.RoleAdmin, identity.RoleViewer} {
		b.Run(string(role), func(b *testing.B) {
			for b.Loop() {
				Show(identity.Identity{Role: role, Name: "ann"}, page)
			}
		})
	}
}

// TestGiven checks that a job without an owner belongs only to the user to whom it was given. A job with an owner
// belongs to this owner, even if its record also names a new one.
func TestGiven(t *testing.T) {
	for _, c := range []struct {
		owner, to string
		ann       bool
	}{
		{messages.Anonymous, "", false}, {messages.Anonymous, "ann", true}, {messages.Anonymous, "bob", false},
		{"bob", "ann", false}, {"ann", "bob", true}, {messages.Anonymous, messages.Anonymous, false},
	} {
		status := job(c.owner)
		status.Record.GivenTo = c.to
		who := identity.Identity{Cluster: "c", Role: identity.RoleSubmitter, Name: "ann"}
		shown := Show(who, &messages.GetJobReply{Job: status})
		text := shown.Message.(interface{ String() string }).String()
		if strings.Contains(text, secret) != c.ann {
			t.Errorf("of %s, given to %q: ann is shown %s", c.owner, c.to, text)
		}
	}
	if Give.Of(identity.RoleOperator) != None || Give.Of(identity.RoleSubmitter) != None {
		t.Error("somebody but admins gives jobs away")
	}
}
