package authn

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/rights"
)

// This file writes the audit lines of calls: each change, each read of another user's data, and each refusal. A
// line describes the subject of a request, and never the content of a job.

// about returns an audit line about the call.
func (c *checkedCall) about(what, outcome string) audit.Line {
	line := audit.Line{Call: c.call, What: what, Outcome: outcome}
	if c.peer.Role != "" {
		line.Who, line.Pass = c.peer.Identity.String(), c.peer.Pass
	}
	if p, ok := peer.FromContext(c.ctx); ok {
		line.From = p.Addr.String()
	}
	return line
}

// audited returns the job of a request whose reads are audited if another user owns the job. It returns nil for
// other requests.
func (c *checkedCall) audited(request proto.Message, needed []rights.Right) (*messages.JobRecord, error) {
	reads := slices.Contains(needed, rights.ReadLogs) && rights.ReadLogs.Of(c.peer.Role) == rights.Any
	if c.gate.o.Audit == nil || !reads {
		return nil, nil
	}
	return c.job(request)
}

// begin writes that an allowed call starts. If the line cannot be written, the call is not made.
func (c *checkedCall) begin(request proto.Message, needed []rights.Right, of *messages.JobRecord) error {
	if c.gate.o.Audit == nil {
		return nil
	}
	changes := slices.ContainsFunc(needed, rights.Right.Changes)
	reads := slices.Contains(needed, rights.ReadLogs) && !rights.Mine(c.peer.Name, of.Whose())
	if !changes && !reads {
		return nil
	}
	what := described(request, needed)
	if reads {
		what += " of " + of.Whose()
	}
	n, err := c.gate.o.Audit.Add(c.about(what, audit.Asked))
	if err != nil {
		return c.unwritten(err)
	}
	c.line = n
	return nil
}

// ended writes the result of an audited call. The call has already been made, so a failed write changes nothing.
func (c *checkedCall) ended(reply any, err error) {
	if c.line == 0 {
		return
	}
	line := c.about("", audit.OK)
	line.Of, c.line = c.line, 0
	if m, ok := reply.(proto.Message); ok && err == nil {
		line.What = strings.TrimSpace(objects(m.ProtoReflect()))
	}
	if err != nil {
		o := api.OutcomeOf(err)
		line.Outcome = strings.ToLower(strings.TrimPrefix(o.GetCode().String(), "CODE_")) + ": " + o.GetText()
	}
	c.gate.note(line)
}

// readOf writes whose env and commands an answer contains, once per owner and call.
func (c *checkedCall) readOf(owners []string) error {
	fresh := slices.DeleteFunc(slices.Clone(owners), func(o string) bool { return slices.Contains(c.read, o) })
	if len(fresh) == 0 || c.gate.o.Audit == nil {
		return nil
	}
	line := c.about("see the env and the command of jobs of "+strings.Join(fresh, ", "), audit.OK)
	if _, err := c.gate.o.Audit.Add(line); err != nil {
		return c.unwritten(err)
	}
	c.read = append(c.read, fresh...)
	return nil
}

func (c *checkedCall) unwritten(err error) error {
	c.gate.say("Refused %s to %s: the audit log cannot be written: %v", c.call, c.peer, err)
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_UNAVAILABLE, Text: "audit log cannot be written, so the request is refused",
		Hint: "free space on the scheduler's disk, and read its log",
	})
}

// note writes a line about a past event. A failed write stops nothing.
func (g *Authenticator) note(line audit.Line) {
	if g.o.Audit == nil {
		return
	}
	if _, err := g.o.Audit.Add(line); err != nil {
		g.say("Not in the audit log: %s of %s, %s: %v", line.Call, line.Who, line.Outcome, err)
	}
}

// noteStranger writes the refusal of an unauthenticated peer.
func (g *Authenticator) noteStranger(from net.Conn, call, why string) {
	g.noteRefusal(audit.Line{Who: strangers, From: hostOf(from), Call: call, Outcome: audit.Refused + ": " + why})
}

// certified writes that a peer is about to get a certificate. If the line cannot be written, the peer gets none.
func (g *Authenticator) certified(conn *tls.Conn, who identity.Identity, until string) error {
	if g.o.Audit == nil {
		return nil
	}
	_, err := g.o.Audit.Add(audit.Line{
		Who: who.String(), From: hostOf(conn), Call: conn.ConnectionState().NegotiatedProtocol,
		What: "get a certificate until " + until, Outcome: audit.OK,
	})
	return err
}

// named lists the fields of requests and answers that describe the subject of a call.
var named = []protoreflect.Name{
	"job", "node", "request_id", "web_source", "reason", "run", "priority", "time_limit_ms", "begin_unix_ms",
	"array_most", "give_to",
	"revision", "dry_run", "id", "rank", "role", "name", "ttl_ms", "until_unix_ms",
}

// namedOfSpecs lists the audited fields of a submitted job.
var namedOfSpecs = []protoreflect.Name{"name", "queue", "user", "image"}

// described returns a text about the content of a request.
func described(request proto.Message, needed []rights.Right) string {
	var words []string
	for _, right := range needed {
		words = append(words, right.Words())
	}
	return strings.Join(words, ", ") + objects(request.ProtoReflect())
}

func objects(m protoreflect.Message) (out string) {
	add := func(m protoreflect.Message, names []protoreflect.Name) {
		for _, name := range names {
			if f := m.Descriptor().Fields().ByName(name); f != nil && f.Message() == nil && m.Has(f) {
				out += fmt.Sprintf(" %s=%v", name, m.Get(f).Interface())
			}
		}
	}
	add(m, named)
	if f := m.Descriptor().Fields().ByName("spec"); f != nil && m.Has(f) {
		add(m.Get(f).Message(), namedOfSpecs)
	}
	return out
}
