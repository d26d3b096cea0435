package authn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/rights"
)

// This file checks every call against the table of server/rights: before its request is served, and before its
// answer is sent.

// PeerOf returns the peer of a call, as the handshake of its connection proved it.
func PeerOf(ctx context.Context) (identity.Peer, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return identity.Peer{}, false
	}
	proof, ok := p.AuthInfo.(Proof)
	return proof.Peer, ok
}

// Node returns the node that makes a call on the link.
func Node(ctx context.Context) (identity.Peer, error) {
	p, ok := PeerOf(ctx)
	if !ok || p.Role != identity.RoleNode {
		return identity.Peer{}, errNoMachine
	}
	return p, nil
}

var errNoMachine = errors.New("links require a node certificate")

// Principal returns the user that makes a call to the gateway.
func Principal(ctx context.Context) *messages.Principal {
	p, _ := PeerOf(ctx) // every call here has a proof
	return &messages.Principal{Name: p.Name, Proven: p.LocalUser}
}

// WhoAmI returns the identity of a call, for the gateway.
func WhoAmI(ctx context.Context) *api.WhoAmIReply {
	p, _ := PeerOf(ctx)
	r := &api.WhoAmIReply{
		Cluster: p.Cluster, Role: string(p.Role), Name: p.Name, Pass: p.Pass, Groups: p.Groups,
	}
	if !p.Local {
		r.UntilUnixMs = p.Until.UnixMilli()
	}
	for _, right := range rights.All() {
		if reach := right.Of(p.Role); reach != rights.None {
			r.Rights = append(r.Rights, &api.Right{
				Name: string(right), Text: right.Words(), Own: reach == rights.Own, OfJob: right.OfJob(),
			})
		}
	}
	return r
}

// ServerOptions returns the options of the grpc.Server behind the Authenticator. They check every call before it is
// served.
func (g *Authenticator) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		envelope.ServerOption(), // allows the size of a request to be checked before decoding
		grpc.StaticStreamWindowSize(unreadBytes), grpc.StaticConnWindowSize(unreadBytes),
		grpc.ChainUnaryInterceptor(g.GuardCall), grpc.ChainStreamInterceptor(g.GuardStream),
	}
}

// GuardCall checks a unary call against the table and the caller's allowance, and audits it.
func (g *Authenticator) GuardCall(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	c, done, err := g.enter(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.allow(request); err != nil {
		return nil, err
	}
	reply, err := handle(ctx, request)
	c.ended(reply, err)
	if err != nil {
		return nil, err
	}
	return c.show(reply)
}

// GuardStream checks a stream like GuardCall.
func (g *Authenticator) GuardStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	c, done, err := g.enter(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer done()
	if info.FullMethod == rights.LinkCall { // the link checks its frames with its own table
		return handle(server, stream)
	}
	defer c.over() // also for a panic, which ends only its own call
	err = handle(server, &guarded{ServerStream: stream, asked: c, once: g.once[info.FullMethod]})
	c.ended(nil, err)
	return err
}

// checkedCall holds the state of one checked call.
type checkedCall struct {
	gate  *Authenticator
	ctx   context.Context
	peer  identity.Peer
	call  string
	wide  bool     // an unfiltered watch, which has a place
	large bool     // a large request, which has a place
	line  uint64   // number of the audit line with the request; 0: none
	read  []string // owners whose reads this call has already audited
}

// over returns all places of a call.
func (c *checkedCall) over() {
	c.lightens()
	if c.wide {
		c.gate.purses.gives(c.peer.Identity.String(), wide)
	}
}

// opens refuses a call that its role may never make, or whose caller is not authenticated.
func (c *checkedCall) opens(proved bool) error {
	if !proved || !rights.Decided(c.call) {
		return c.refuse("make this call", "nobody", "")
	}
	for _, right := range rights.Opens(c.call) {
		if right.Of(c.peer.Role) == rights.None {
			return c.refuseRight(right, "")
		}
	}
	return nil
}

// allow refuses a request for which the caller lacks a right. It replaces a prefix of a job ID by the complete ID,
// so that the action applies to the job that was checked.
func (c *checkedCall) allow(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return c.refuse("make this call", "nobody", "")
	}
	needed := rights.Needed(c.call, m)
	if len(needed) == 0 {
		return c.refuse("ask for that", "nobody", "")
	}
	of, err := c.audited(m, needed)
	if err != nil {
		return err
	}
	for _, right := range needed {
		switch reach := right.Of(c.peer.Role); {
		case reach == rights.None:
			return c.refuseRight(right, "")
		case reach == rights.Any:
			continue
		}
		if of == nil {
			if of, err = c.job(m); err != nil {
				return err
			}
		}
		if owner := of.Whose(); !rights.Mine(c.peer.Name, owner) {
			return c.refuseRight(right, fmt.Sprintf("job %s of %s", of.GetId(), owner))
		}
	}
	who, now := c.peer.Identity.String(), c.gate.o.Now()
	if q, ok := request.(*messages.Watch); ok && len(q.GetIds()) == 0 && !c.wide {
		var has int
		if has, c.wide = c.gate.purses.takes(who, wide, now); !c.wide {
			return c.overdrawn(fmt.Sprintf("has reached the limit of %d open watches without a filter; watch single jobs by "+
				"ID instead", has), time.Second)
		}
	}
	if slices.ContainsFunc(needed, rights.Right.Changes) {
		if over, wait := c.gate.purses.spends(who, 1, now); over != "" {
			return c.overdrawn(over, wait)
		}
	}
	if rights.Brings(c.call) && c.peer.Role != identity.RoleAdmin {
		if over, wait := c.gate.purses.submit(who, now); over != "" {
			c.gate.o.Count(countLimitSubmits, 1)
			return c.overdrawn(over, wait)
		}
	}
	return c.begin(m, needed, of)
}

// job returns the job that a request names.
func (c *checkedCall) job(request proto.Message) (*messages.JobRecord, error) {
	m := request.ProtoReflect()
	f := m.Descriptor().Fields().ByName("job")
	if f == nil || c.gate.o.Job == nil {
		return nil, c.refuse("ask for that", "nobody", "")
	}
	found, err := c.gate.o.Job(c.ctx, m.Get(f).String())
	if err == nil {
		m.Set(f, protoreflect.ValueOfString(found.GetId()))
	}
	return found, err
}

// show returns the part of an answer that the caller may see. It audits a read of other users' data first.
func (c *checkedCall) show(answer any) (any, error) {
	m, ok := answer.(proto.Message)
	if !ok {
		return answer, nil
	}
	shown := rights.Show(c.peer.Identity, m)
	return shown.Message, c.readOf(shown.Foreign)
}

func (c *checkedCall) refuseRight(right rights.Right, object string) error {
	what := right.Words()
	if object != "" {
		what += " " + object
	} else if right.OfJob() {
		what += " jobs"
	}
	return c.refuse(what, right.Who(), string(right))
}

// refuse returns the error for a missing right, and logs it.
func (c *checkedCall) refuse(what, whose, right string) error {
	c.gate.o.Count(countDenied, 1)
	c.gate.say("Refused %s to %s: may not %s", c.call, c.peer, what)
	c.gate.noteRefusal(c.about(what, audit.Refused))
	name := c.peer.Name
	if c.peer.Role != "" {
		name += " (" + string(c.peer.Role) + ")"
	}
	hint := "no role may"
	if whose != "nobody" {
		hint = strings.TrimSpace("only " + whose + " may: the permission is " + right)
	}
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Text: name + " may not " + what, Hint: hint,
	})
}
