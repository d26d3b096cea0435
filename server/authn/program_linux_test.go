package authn

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/caller"
	"github.com/yi-json/synapse/server/httpapi"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/unixsocket"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file checks that HTTP has the same access rules as gRPC, for every kind of credential.

// openHTTP serves a rig's API over HTTP only.
func (s *rig) openHTTP(served api.SynapseServer, calls []grpc.UnaryServerInterceptor,
	streams []grpc.StreamServerInterceptor) *grpc.Server {
	s.t.Helper()
	s.gate.o.Job = jobNamed
	door := httpmux.New(httpmux.Options{Handler: httpapi.New(httpapi.Options{
		Roots: s.gate.Roots(),
		Service: &caller.Service{API: served, Calls: append([]grpc.UnaryServerInterceptor{s.gate.GuardCall}, calls...),
			Streams: append([]grpc.StreamServerInterceptor{s.gate.GuardStream}, streams...)},
		Caller: func(r *http.Request) (*httpapi.Caller, error) {
			v, _ := httpmux.InfoOf(r).(Visitor)
			c, err := s.gate.Caller(v, r.Header.Get("Authorization"), httpmux.AddressOf(r))
			if errors.Is(err, ErrStranger) {
				err = fmt.Errorf("%w: %w", httpapi.ErrWho, err)
			}
			if err != nil {
				return nil, err
			}
			return &httpapi.Caller{Peer: c.Peer, Whom: c.Whom(), Until: c.Until, Leave: c.Leave, Comes: c.Comes}, nil
		},
	})})
	s.t.Cleanup(door.Close)
	server := grpc.NewServer(append(s.gate.ServerOptions(), grpc.Creds(door.Credentials(s.gate.Credentials())))...)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.address = listener.Addr().String()
	go server.Serve(listener)
	s.t.Cleanup(server.Stop)
	return server
}

// scriptedHTTP returns a rig whose fake services record each admitted call.
func scriptedHTTP(t *testing.T) (*rig, *scripted) {
	t.Helper()
	s, served := newRig(t), &scripted{}
	s.openHTTP(served, []grpc.UnaryServerInterceptor{served.call}, []grpc.StreamServerInterceptor{served.stream})
	return s, served
}

// program is an HTTP client with a certificate, a token, or neither.
type program struct {
	*http.Client
	address, token string
}

func (s *rig) program(token string, as *credential.Badge, protocol string) program {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	if as != nil {
		config.Certificates = []tls.Certificate{*as.Shows().TLS()}
	}
	reach := &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, s.address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, config), nil
	}}
	s.t.Cleanup(reach.CloseIdleConnections)
	return program{&http.Client{Timeout: time.Minute, Transport: reach}, "https://" + s.address, token}
}

// post sends a request.
func (p program) post(call, body string) (*http.Response, error) {
	q := must(http.NewRequest(http.MethodPost, p.address+httpapi.Prefix+call, strings.NewReader(body)))
	q.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		q.Header.Set("Authorization", "Bearer "+p.token)
	}
	return p.Do(q)
}

// says returns the status and the text of an answer.
func (p program) says(call, body string) string {
	answer, err := p.post(call, body)
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Sprintf("%d %s: %v", answer.StatusCode, text, err)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, text)
}

// ask makes a call and returns its result as a gRPC error.
func (p program) ask(call string, _ protoreflect.MethodDescriptor, q proto.Message) error {
	body := must(protojson.Marshal(q))
	answer, err := p.post(call[strings.LastIndexByte(call, '/')+1:], string(body)+"\n")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var said struct {
		Error struct{ Code, Field, Text, Hint string }
	}
	if err := json.Unmarshal(text, &said); err != nil || answer.StatusCode == http.StatusOK {
		return fmt.Errorf("answered %d %s", answer.StatusCode, text)
	}
	o := &messages.Outcome{Code: messages.Code(messages.Code_value[said.Error.Code]), Text: said.Error.Text,
		Hint: said.Error.Hint}
	if refused := o.Code == messages.Code_CODE_NOT_ALLOWED; refused != (answer.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("answered %d %s", answer.StatusCode, text)
	}
	if o.Code == messages.Code_CODE_UNSPECIFIED {
		return status.Error(codes.Aborted, said.Error.Text)
	}
	return api.StatusOf(o)
}

// synapseMethods returns the methods of the client API.
func synapseMethods(t *testing.T) (all []protoreflect.MethodDescriptor) {
	for _, m := range methods(t) {
		if m.Parent().FullName() == "synapse.v1.Synapse" {
			all = append(all, m)
		}
	}
	return all
}

// TestEveryCellByHTTP makes each request once per role, with a certificate, a token and an issuer's token. HTTP
// must admit and refuse the same requests as gRPC, with the same text.
func TestEveryCellByHTTP(t *testing.T) {
	s, served := scriptedHTTP(t)
	s.keepPasses()
	s.believeAnIssuer()
	all := synapseMethods(t)
	ways := map[string]func(role identity.Role) program{
		"certificate": func(role identity.Role) program {
			return s.program("", s.badge(s.by, role, nameOf(role)), protocolHTTP1)
		},
		"token": func(role identity.Role) program {
			text, _ := s.kept(role, "me", time.Hour)
			return s.program(text, nil, protocolProgram)
		},
		"issuer": func(role identity.Role) program { return s.program(string(role)+".me.x", nil, protocolProgram) },
	}
	for way, as := range ways {
		cells, roles := map[bool]int{}, identity.People
		if way == "certificate" {
			roles = identity.Roles
		}
		for _, role := range roles {
			askEveryCell(t, all, as(role).ask, served, role, cells)
		}
		if cells[true] < 100 || cells[false] < 50 {
			t.Errorf("by %s were asked %d allowed cells and %d refused ones", way, cells[true], cells[false])
		}
		t.Logf("by %s: %d allowed cells, %d refused ones", way, cells[true], cells[false])
	}
}

// TestWhoByHTTP checks that an unauthenticated request gets a hint. A token is accepted if the client verified the
// scheduler before it sent the token. Otherwise only a viewer's token is accepted.
func TestWhoByHTTP(t *testing.T) {
	s, _ := scriptedHTTP(t)
	s.keepPasses()
	s.gate.o.Page = pageFor(t, "head1")
	if err := s.gate.readPage(); err != nil {
		t.Fatal(err)
	}
	viewer, _ := s.kept(identity.RoleViewer, "vera", time.Hour)
	admin, _ := s.kept(identity.RoleAdmin, "ada", time.Hour)
	over, _ := s.kept(identity.RoleAdmin, "ada", time.Millisecond)
	s.pass(time.Second)
	made, _, _ := credential.NewPass("c-a", [32]byte{1})
	badge := s.badge(s.by, identity.RoleSubmitter, "ann")
	const reached = `500 {"error":{"code":"CODE_UNSPECIFIED","text":"reached"`
	for _, c := range []struct {
		words, token string
		as           *credential.Badge
		protocol     string
		want         string
	}{
		{"nobody", "", nil, protocolHTTP1, `401 {"error":{"code":"CODE_NOT_ALLOWED","field":"Authorization"`},
		{"made up", made, nil, protocolProgram, "401"},
		{"over", over, nil, protocolProgram, "401"},
		{"no token", "x", nil, protocolProgram, "401"},
		{"an invitation", credential.InvitationPrefix + ".c-a.00.00", nil, protocolProgram, "401"},
		{"an admin's, to whoever listens", admin, nil, protocolHTTP1, "403"},
		{"a viewer's, to whoever listens", viewer, nil, protocolHTTP1, reached},
		{"an admin's", admin, nil, protocolProgram, reached},
		{"two", viewer, badge, protocolHTTP1, "403"},
		{"a certificate", "", badge, protocolHTTP1, reached},
	} {
		if got := s.program(c.token, c.as, c.protocol).says("WhoAmI", ""); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.words, got, c.want)
		}
	}
	named := s.program(admin, nil, protocolHTTP1)
	named.Transport.(*http.Transport).DialTLSContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, s.address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "head1", NextProtos: []string{"http/1.1"}}),
			nil
	}
	if got := named.says("WhoAmI", ""); !strings.HasPrefix(got, "500") || !strings.Contains(got, "reached") {
		t.Errorf("under a name of the page's certificate: %s", got)
	}
	if answer, err := s.program(made, nil, protocolProgram).post("WhoAmI", ""); err != nil || !answer.Close {
		t.Errorf("one that is not known may go on: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
	if s.said(admin)+s.said(viewer)+s.said(made) > 0 {
		t.Error("the log has a token")
	}
}

// watcher serves a watch that runs until the client ends it.
type watcher struct{ api.UnimplementedSynapseServer }

func (watcher) Watch(_ *messages.Watch, stream grpc.ServerStreamingServer[messages.Event]) error {
	if err := stream.Send(&messages.Event{Seq: 7}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// TestRevokedByHTTP checks that open requests of a revoked token end with the reason.
func TestRevokedByHTTP(t *testing.T) {
	s := newRig(t)
	s.openHTTP(watcher{}, nil, nil)
	shelf := s.keepPasses()
	text, id := s.kept(identity.RoleViewer, "vera", time.Hour)
	answer, err := s.program(text, nil, protocolProgram).post("Watch", `{"jobs":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := make([]byte, 256)
	n, err := answer.Body.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), `"result":{"seq":`) {
		t.Fatalf("%s, %v", first[:n], err)
	}
	if err := shelf.DropPass(shelf.epoch, id); err != nil {
		t.Fatal(err)
	}
	s.later(recheckEvery)
	rest, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Contains(rest, []byte(`{"error":{"code":"CODE_NOT_ALLOWED","field":"Authorization"`)) {
		t.Errorf("%s, %v", rest, err)
	}
	if got := s.program(text, nil, protocolProgram).says("WhoAmI", ""); !strings.HasPrefix(got, "401") {
		t.Errorf("and then %s", got)
	}
}

// TestAuditedByHTTP checks that changes and refusals over HTTP are audited as over gRPC, with the token's ID
// instead of the token.
func TestAuditedByHTTP(t *testing.T) {
	s, read := newAudited(t)
	served := &scripted{}
	s.openHTTP(served, []grpc.UnaryServerInterceptor{served.call}, nil)
	s.keepPasses()
	text, id := s.kept(identity.RoleSubmitter, "ann", time.Hour)
	ann := s.program(text, nil, protocolProgram)
	ann.says("Cancel", `{"job":"of-ann","reason":"so"}`)
	ann.says("Cancel", `{"job":"of-bob"}`)
	s.program("x", nil, protocolProgram).says("Cancel", "")
	var got []string
	for _, l := range read() {
		if strings.Contains(fmt.Sprint(l), strings.TrimPrefix(text, credential.PassPrefix)) {
			t.Errorf("the token is in %v", l)
		}
		if l.Call == "http" || strings.HasSuffix(l.Call, "/Cancel") {
			got = append(got, fmt.Sprintf("%s %s %s %.7s", l.Who, l.Pass, l.What, l.Outcome))
		}
	}
	who := "synapse://c-a/submitter/ann " + id
	want := []string{
		who + " cancel job=of-ann reason=so asked", who + "  unspeci", who + " cancel job of-bob of bob refused",
		"   refused",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has\n%q, want\n%q", got, want)
	}
}

// TestLocalByHTTP checks that the local socket serves HTTP to the same users as gRPC, and that a connection counts
// against its identity until it ends.
func TestLocalByHTTP(t *testing.T) {
	s, served := newRig(t), &scripted{}
	server := s.openHTTP(served, []grpc.UnaryServerInterceptor{served.call}, nil)
	dir := t.TempDir()
	at := must(unixsocket.Listen(dir))
	go server.Serve(at)
	conn := must(unixsocket.Dial(t.Context(), unixsocket.Path(dir)))
	if _, _, err := credential.Beside(nil).ClientHandshake(t.Context(), "", conn); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(testpace.Until(time.Minute))
	fmt.Fprint(conn, "POST /v1/ListPasses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 0\r\n"+
		"Connection: close\r\n\r\n")
	text := must(io.ReadAll(conn))
	if !strings.HasPrefix(string(text), "HTTP/1.1 500") || !strings.Contains(string(text), "reached") {
		t.Errorf("%s", text)
	}
	for deadline := testpace.Until(time.Minute); ; time.Sleep(time.Millisecond) {
		s.gate.mu.Lock()
		open := len(s.gate.open)
		s.gate.mu.Unlock()
		s.gate.purses.mu.Lock()
		callers := s.gate.purses.has[callers]
		s.gate.purses.mu.Unlock()
		if open == 0 && callers == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open, and %d call", open, callers)
		}
	}
}
