package authn

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/rights"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file checks access rights over real connections: every call in each variant, by every role, for a job of the
// caller, of another user, and without an owner.

// scripted is a fake of all services that only reports that a call was admitted.
type scripted struct {
	api.UnimplementedSynapseServer
	api.UnimplementedSchedulerServer
	reached atomic.Int64
}

// Exec, Carry and Reach report the call at the first request, because the check happens when the request is
// received.
func (*scripted) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	_, err := stream.Recv()
	return cmp.Or(err, status.Error(codes.Unimplemented, ""))
}

func (*scripted) Reach(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	_, err := stream.Recv()
	return cmp.Or(err, status.Error(codes.Unimplemented, ""))
}

func (*scripted) Carry(stream grpc.BidiStreamingServer[api.ExecOut, api.ExecIn]) error {
	_, err := stream.Recv()
	return cmp.Or(err, status.Error(codes.Unimplemented, ""))
}

// reach records that a call was admitted.
func (s *scripted) reach(err error) error {
	if status.Code(err) == codes.Unimplemented {
		s.reached.Add(1)
		return errReached
	}
	return err
}

func (s *scripted) call(c context.Context, q any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	r, err := h(c, q)
	return r, s.reach(err)
}

func (s *scripted) stream(server any, on grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	return s.reach(h(server, on))
}

// jobNamed returns a job whose ID names its owner.
func jobNamed(_ context.Context, id string) (*messages.JobRecord, error) {
	return &messages.JobRecord{Id: id, Owner: &messages.Principal{Name: strings.TrimPrefix(id, "of-")}}, nil
}

// errReached is the result of an admitted call.
var errReached = status.Error(codes.Aborted, "reached")

// callsStage returns an Authenticator in front of fakes of all services.
func callsStage(t *testing.T) (*rig, *scripted) {
	s := newRig(t)
	s.gate.o.Job = jobNamed
	served := &scripted{}
	server := grpc.NewServer(append(s.gate.ServerOptions(), grpc.Creds(s.gate.Credentials()),
		grpc.ChainUnaryInterceptor(served.call), grpc.ChainStreamInterceptor(served.stream))...)
	api.RegisterSynapseServer(s.gate.Services(server), served)
	api.RegisterSchedulerServer(s.gate.Services(server), served)
	grpc_health_v1.RegisterHealthServer(s.gate.Services(server), health.NewServer())
	reflection.Register(s.gate.Services(server))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "remote.Remoting", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
			StreamName: "Receive", ServerStreams: true, ClientStreams: true,
			Handler: func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "") },
		}},
	}, served)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.address = listener.Addr().String()
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	for name, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			if call := "/" + name + "/" + m.Name; !rights.Decided(call) {
				t.Errorf("%s is served, and no line says to whom", call)
			}
		}
	}
	return s, served
}

// requests returns the requests of one call, by description: one for each value of each field that affects rights.
func requests(call string, in protoreflect.MessageDescriptor, owner string) map[string]proto.Message {
	out := map[string]proto.Message{}
	add := func(words string, fill func(m protoreflect.Message)) {
		m := dynamicpb.NewMessage(in)
		if f := in.Fields().ByName("job"); f != nil {
			m.Set(f, protoreflect.ValueOfString("of-"+owner))
		}
		fill(m)
		out[words] = m
	}
	add("", func(protoreflect.Message) {})
	for i := range in.Fields().Len() {
		f := in.Fields().Get(i)
		switch {
		case f.Kind() == protoreflect.BoolKind:
			add(string(f.Name()), func(m protoreflect.Message) { m.Set(f, protoreflect.ValueOfBool(true)) })
		case f.Kind() == protoreflect.EnumKind && !f.IsList():
			for j := range f.Enum().Values().Len() {
				v := f.Enum().Values().Get(j)
				add(string(v.Name()), func(m protoreflect.Message) { m.Set(f, protoreflect.ValueOfEnum(v.Number())) })
			}
		case f.Name() == "give_to":
			add("give_to", func(m protoreflect.Message) { m.Set(f, protoreflect.ValueOfString("ann")) })
		case f.Name() == "spec":
			for _, name := range []protoreflect.Name{"user", "image", "queue", "mounts"} {
				add("spec."+string(name), func(m protoreflect.Message) {
					spec := m.Mutable(f).Message()
					if field := f.Message().Fields().ByName(name); field.IsList() {
						spec.Mutable(field).List().AppendMutable()
					} else {
						spec.Set(field, protoreflect.ValueOfString("x"))
					}
				})
			}
		}
	}
	return out
}

// expected computes the expected result from the table, independent of the Authenticator.
func expected(role identity.Role, call string, q proto.Message, owner string) bool {
	needed := rights.Needed(call, q)
	for _, right := range needed {
		switch right.Of(role) {
		case rights.None:
			return false
		case rights.Own:
			if owner != "me" {
				return false
			}
		}
	}
	return len(needed) > 0
}

// TestEveryCellOverTheWire makes each request once per role, with a certificate, a token and an issuer's token. A
// refusal must have the right code, text and hint.
func TestEveryCellOverTheWire(t *testing.T) {
	s, served := callsStage(t)
	s.keepPasses()
	cells := map[bool]int{}
	for _, role := range identity.Roles {
		conn, _ := s.open(s.badge(s.by, role, nameOf(role)).Credentials(nil))
		askEveryCell(t, methods(t), by(conn), served, role, cells)
	}
	byToken := map[bool]int{}
	for _, role := range identity.People {
		conn, _ := s.open(s.bearer(role, "me", time.Hour).Credentials(nil))
		askEveryCell(t, methods(t), by(conn), served, role, byToken)
	}
	s.believeAnIssuer()
	byIssuer := map[bool]int{}
	for _, role := range identity.People {
		conn, _ := s.open(s.shows(string(role) + ".me.x").Credentials(nil))
		askEveryCell(t, methods(t), by(conn), served, role, byIssuer)
	}
	for _, n := range []map[bool]int{cells, byToken, byIssuer} {
		if n[true] < 100 || n[false] < 100 {
			t.Errorf("asked were %d allowed cells and %d refused ones", n[true], n[false])
		}
	}
	t.Logf("asked %d allowed cells, %d refused ones; by tokens %d and %d",
		cells[true], cells[false], byToken[true], byToken[false])
}

// asking makes a call and returns its result.
type asking func(call string, m protoreflect.MethodDescriptor, q proto.Message) error

// by makes calls over a connection.
func by(conn *grpc.ClientConn) asking {
	return func(call string, m protoreflect.MethodDescriptor, q proto.Message) error {
		return invoke(conn, call, m, q)
	}
}

// askEveryCell makes each request once.
func askEveryCell(t *testing.T, methods []protoreflect.MethodDescriptor, ask asking, served *scripted,
	role identity.Role, cells map[bool]int) {
	t.Helper()
	name := nameOf(role)
	for _, m := range methods {
		call := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		for _, owner := range []string{"me", "other", messages.Anonymous} {
			if owner != "me" && m.Input().Fields().ByName("job") == nil {
				continue
			}
			for words, q := range requests(call, m.Input(), owner) {
				want := expected(role, call, q, owner)
				cells[want]++
				before := served.reached.Load()
				err := ask(call, m, q)
				reached := served.reached.Load() > before
				if strings.HasPrefix(call, "/grpc.") {
					reached = status.Code(err) != codes.PermissionDenied // the gRPC library serves reflection
				}
				if reached != want {
					t.Errorf("%s, %s %s of a job of %s: reached %v, want %v (%v)", role, call, words, owner, reached, want, err)
				}
				if o := api.OutcomeOf(err); !want && (o.GetCode() != messages.Code_CODE_NOT_ALLOWED || o.GetHint() == "" ||
					!strings.HasPrefix(o.GetText(), fmt.Sprintf("%s (%s) may not ", name, role))) {
					t.Errorf("%s, %s %s: refused with %v", role, call, words, err)
				}
			}
		}
	}
}

// nameOf returns the name that each role uses: an authority can only certify the scheduler with its own name.
func nameOf(role identity.Role) string {
	if role == identity.RoleScheduler {
		return "s1"
	}
	return "me"
}

// methods returns all methods of a scheduler, including the link.
func methods(t *testing.T) (all []protoreflect.MethodDescriptor) {
	for _, name := range []protoreflect.FullName{
		"synapse.v1.Synapse", "v1.Scheduler", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection",
	} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.(protoreflect.ServiceDescriptor).Methods().Len() {
			all = append(all, d.(protoreflect.ServiceDescriptor).Methods().Get(i))
		}
	}
	return all
}

// invoke makes a call of any kind, and waits for its first answer.
func invoke(conn *grpc.ClientConn, call string, m protoreflect.MethodDescriptor, q proto.Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), testpace.Of(20*time.Second))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{
		ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient(),
	}, call)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(q); err != nil {
		return stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
}

// TestLinkIsForMachines checks that only a node can open the link, whatever other rights a role has.
func TestLinkIsForMachines(t *testing.T) {
	s, served := callsStage(t)
	for _, role := range identity.Roles {
		conn, _ := s.open(s.badge(s.by, role, nameOf(role)).Credentials(nil))
		before := served.reached.Load()
		stream, err := conn.NewStream(
			t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, rights.LinkCall)
		if err == nil {
			err = stream.RecvMsg(&messages.Hello{})
		}
		if reached := served.reached.Load() > before; reached != (role == identity.RoleNode) {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// TestNamedWhole checks that an action on a prefix of a job ID applies to the job that was checked.
func TestNamedWhole(t *testing.T) {
	s := newRig(t)
	s.gate.o.Job = func(context.Context, string) (*messages.JobRecord, error) {
		return &messages.JobRecord{Id: "j-whole", Owner: &messages.Principal{Name: "ann"}}, nil
	}
	peer := identity.Peer{Identity: identity.Identity{Cluster: "c-a", Role: identity.RoleSubmitter, Name: "ann"}}
	q := &messages.Cancel{Job: "j-w"}
	c := &checkedCall{gate: s.gate, ctx: t.Context(), peer: peer, call: "/synapse.v1.Synapse/Cancel"}
	if err := c.allow(q); err != nil || q.Job != "j-whole" {
		t.Errorf("%v, of %s", err, q.Job)
	}
}

// TestRefusedOnce checks that repeated refusals log one line, and that the text names the right and the job's
// owner.
func TestRefusedOnce(t *testing.T) {
	s, _ := callsStage(t)
	conn, _ := s.open(s.badge(s.by, identity.RoleSubmitter, "ann").Credentials(nil))
	for range 3 {
		_, err := api.NewSynapseClient(conn).Cancel(t.Context(), &messages.Cancel{Job: "of-bob"})
		o := api.OutcomeOf(err)
		if o.GetText() != "ann (submitter) may not cancel job of-bob of bob" ||
			o.GetHint() != "only the job's owner, admins, operators may: the permission is cancel" {
			t.Errorf("it says %q (%s)", o.GetText(), o.GetHint())
		}
	}
	if n := s.tells("Refused /synapse.v1.Synapse/Cancel to synapse://c-a/submitter/ann"); n != 1 {
		t.Errorf("%d lines: %q", n, s.lines)
	}
}
