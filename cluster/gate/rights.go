package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns which calls a role may make. What is not in the table is for admins; what no role has is refused.

// rights are the calls of roles other than an admin's.
var rights = map[string][]identity.Role{
	"/remote.Remoting/Receive":       {identity.RoleNode}, // the link, and no admin's: a person is no machine
	"/synapse.v1.Synapse/ReadScript": {identity.RoleNode, identity.RoleAdmin},
	"/grpc.health.v1.Health/Check":   identity.Roles,
	"/grpc.health.v1.Health/Watch":   identity.Roles,
	"/grpc.health.v1.Health/List":    identity.Roles,
}

// may reports whether a role may make a call.
func may(role identity.Role, method string) bool {
	roles, ok := rights[method]
	if !ok {
		return role == identity.RoleAdmin
	}
	return slices.Contains(roles, role)
}

// PeerOf is who makes a call, as its connection's handshake proved.
func PeerOf(ctx context.Context) (identity.Peer, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return identity.Peer{}, false
	}
	proof, ok := p.AuthInfo.(Proof)
	return proof.Peer, ok
}

// Node is the machine that makes a call; for the link.
func Node(ctx context.Context) (topology.NodeID, error) {
	p, ok := PeerOf(ctx)
	if !ok || p.Role != identity.RoleNode {
		return "", errNoMachine
	}
	return topology.NodeID(p.Name), nil
}

var errNoMachine = errors.New("only a machine's certificate opens a link")

// Principal is the person that makes a call; for the gateway.
func Principal(ctx context.Context) *messages.Principal {
	p, _ := PeerOf(ctx) // without a proof no call gets here
	return &messages.Principal{Name: p.Name}
}

// ServerOptions are for the grpc.Server behind the gate: every call is held against the table before it is served.
func (g *Gate) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (any, error) {
			if err := g.allow(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(
			server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
		) error {
			if err := g.allow(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handle(server, stream)
		}),
	}
}

func (g *Gate) allow(ctx context.Context, method string) error {
	p, ok := PeerOf(ctx)
	if ok && may(p.Role, method) {
		return nil
	}
	g.o.Count(countDenied, 1)
	g.say("Refused %s to %s", method, p)
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Text: fmt.Sprintf("%s may not make this call", p),
		Hint: "it is for admins: use an admin's folder with --tls",
	})
}
