package authn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/rights"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// TestVisitorsTokens checks that a viewer's token opens a page, like a viewer's certificate. Tokens of other roles,
// and expired, invalid or missing tokens, do not.
func TestVisitorsTokens(t *testing.T) {
	s := newVisited(t)
	s.keepPasses()
	viewer, _ := s.kept(identity.RoleViewer, "vera", time.Hour)
	admin, _ := s.kept(identity.RoleAdmin, "ada", time.Hour)
	made, _, _ := credential.NewPass("c-a", [32]byte{1})
	for header, want := range map[string]string{
		"Bearer " + viewer: "200 figures for vera",
		"Bearer " + admin:  "403 authentication required",
		"Bearer " + made:   "403 authentication required",
		"Bearer x":         "403 authentication required",
		viewer:             "403 authentication required",
	} {
		if got := s.visitWith(header, "/figures", nil); !strings.HasPrefix(got, want) {
			t.Errorf("%.20s…: %q, want %q", header, got, want)
		}
	}
	s.pass(2 * time.Hour)
	if got := s.visitWith("Bearer "+viewer, "/figures", nil); !strings.HasPrefix(got, "403 ") {
		t.Errorf("it is over: %q", got)
	}
}

// newVisited returns a rig with a public page and a page for readers of metrics.
func newVisited(t *testing.T) *rig {
	t.Helper()
	s := &rig{t: t, by: authority(t, "c-a", today), now: today}
	s.gate = must(New(Options{Folder: s.by, Log: s.log, Now: s.clock}))
	t.Cleanup(s.gate.Close)
	pages := http.NewServeMux()
	pages.HandleFunc("GET /open", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "open") })
	pages.HandleFunc("GET /figures", func(w http.ResponseWriter, r *http.Request) {
		who, _ := httpmux.InfoOf(r).(Visitor)
		if err := s.gate.Admit(who, r.Header.Get("Authorization"), "/figures", rights.ReadMetrics); err != nil {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, err)
			return
		}
		name := who.Peer.Name
		if name == "" {
			name = "vera" // from the token; without it the page is refused
		}
		fmt.Fprintln(w, "figures for "+name)
	})
	d := httpmux.New(httpmux.Options{Handler: pages})
	t.Cleanup(d.Close)
	server := grpc.NewServer(append(s.gate.ServerOptions(), grpc.Creds(d.Credentials(s.gate.Credentials())))...)
	grpc_health_v1.RegisterHealthServer(s.gate.Services(server), health.NewServer())
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.address = listener.Addr().String()
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return s
}

// visit requests a page, with or without credentials, and returns its text or the reason for a refusal.
func (s *rig) visit(path string, as *credential.Badge, protocols ...string) string {
	return s.visitWith("", path, as, protocols...)
}

func (s *rig) visitWith(authorization, path string, as *credential.Badge, protocols ...string) string {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
	if as != nil {
		config.Certificates = []tls.Certificate{*as.Shows().TLS()}
	}
	client := http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}
	ask := must(http.NewRequest(http.MethodGet, "https://"+s.address+path, nil))
	if authorization != "" {
		ask.Header.Set("Authorization", authorization)
	}
	got, err := client.Do(ask)
	if err != nil {
		return "error: " + err.Error()
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(got.Body)
	return fmt.Sprintf("%d %s", got.StatusCode, strings.TrimSpace(string(text)))
}

// TestVisits checks that HTTP/1.1 works next to gRPC: public pages without a certificate, others by role.
func TestVisits(t *testing.T) {
	s := newVisited(t)
	viewer := s.badge(s.by, identity.RoleViewer, "vera")
	machine := s.badge(s.by, identity.RoleNode, "n1")
	stranger := s.badge(authority(t, "c-b", today), identity.RoleAdmin, "eve")
	for _, c := range []struct {
		path      string
		as        *credential.Badge
		protocols []string
		want      string
	}{
		{"/open", nil, []string{"http/1.1"}, "200 open"},
		{"/open", nil, nil, "200 open"},
		{"/open", viewer, []string{"h2", "http/1.1"}, "200 open"},
		{"/figures", viewer, []string{"h2", "http/1.1"}, "200 figures for vera"},
		{"/figures", nil, nil, "403 authentication required: present a certificate"},
		{"/figures", machine, nil, "403 n1 (node) may not read metrics of the cluster"},
		{"/open", stranger, nil, "error: "},
		{"/nothing", viewer, nil, "404 "},
	} {
		if got := s.visit(c.path, c.as, c.protocols...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.path, c.protocols, got, c.want)
		}
	}
	if n := s.said("Refused GET /figures to"); n != 2 {
		t.Errorf("the log tells %d times of a refusal, want 2", n)
	}
}

// TestVisitorIsNoCaller checks that gRPC still works, and that a client that negotiated HTTP/1.1 cannot make gRPC
// calls.
func TestVisitorIsNoCaller(t *testing.T) {
	s := newVisited(t)
	_, ask := s.open(s.badge(s.by, identity.RoleViewer, "vera").Credentials(nil))
	if err := ask(); err != nil {
		t.Errorf("a call beside the multiplexer: %v", err)
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, protocols := range [][]string{{"http/1.1"}, nil} {
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
		conn := must(tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", s.address, config))
		_ = conn.SetDeadline(testpace.Until(10 * time.Second))
		_, _ = io.WriteString(conn, preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
			t.Errorf("%v: the preface of HTTP/2 is answered by %.40q", protocols, answer)
		}
		conn.Close()
	}
	if err := s.intrude(func(*tls.Config) {}); err == nil {
		t.Error("h2 without a certificate is let in")
	}
}

// TestVisitorIsClosed checks that an open visit ends when its certificate is denied.
func TestVisitorIsClosed(t *testing.T) {
	s := newVisited(t)
	viewer := s.badge(s.by, identity.RoleViewer, "vera")
	config := &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{protocolHTTP1},
		Certificates: []tls.Certificate{*viewer.Shows().TLS()},
	}
	conn := must((&tls.Dialer{Config: config}).DialContext(context.Background(), "tcp", s.address))
	defer conn.Close()
	_ = conn.SetDeadline(testpace.Until(10 * time.Second))
	_, _ = io.WriteString(conn, "GET /figures HTTP/1.1\r\nHost: x\r\n\r\n")
	page := make([]byte, 1024)
	if n, err := conn.Read(page); err != nil || !strings.HasPrefix(string(page[:n]), "HTTP/1.1 200") {
		t.Fatalf("%q, %v", page[:n], err)
	}
	s.pass(100 * 24 * time.Hour) // after the certificate's expiry
	s.gate.recheck()
	for {
		if _, err := conn.Read(page); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the visit is not closed: %v", err)
		}
	}
}
