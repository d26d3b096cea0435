package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests the request for a single node.

// naming is a fake scheduler that returns the users of a node only in an answer about this node alone.
type naming struct{ *fake }

func (n naming) ListNodes(ctx context.Context, q *messages.ListNodes) (*messages.ListNodesReply, error) {
	if q.Node == "" {
		return n.fake.ListNodes(ctx, q)
	}
	reply := &messages.ListNodesReply{Outcome: ok()}
	for _, m := range n.nodes {
		if m.GetRecord().GetId() == q.Node {
			one := proto.Clone(m).(*messages.NodeStatus)
			one.Users.Own = []string{"ann", "bob"}
			reply.Nodes = append(reply.Nodes, one)
		}
	}
	return reply, n.heard(q)
}

// TestOneMachineIsNamed checks that a request for one node shows the accounts that lists omit. It does not list all
// nodes, unless the argument is only a prefix of an ID.
func TestOneMachineIsNamed(t *testing.T) {
	n := naming{startFake(t)}
	for _, id := range []string{"n1", "n20", "n21", "other"} {
		m := machine(id)
		m.Users = &messages.NodeUsers{OwnCount: 2}
		n.nodes = append(n.nodes, m)
	}
	address := serve(t, n)
	for line, listed := range map[string]bool{
		"describe node n1": false, "get node n20 -o json": false, "describe node oth": true, "get node other -o yaml": false,
	} {
		n.asked = nil
		r := cli(address, strings.Fields(line)...)
		if r.code != 0 || !strings.Contains(r.out, "ann") {
			t.Errorf("%s: %d, %s%s", line, r.code, r.out, r.err)
		}
		if all := len(told[*messages.ListNodes](n.fake)) > 1; all != listed {
			t.Errorf("%s: all machines are asked for: %v", line, all)
		}
	}
	cli(address, "describe", "node", "n2").wants(t, exit.Conflict, "", `"n2" matches several nodes:`)
	cli(address, "describe", "node", "a b").wants(t, exit.NotFound, "", `unknown node "a b"`)
}
