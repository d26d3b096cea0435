package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

func TestExplain(t *testing.T) {
	outcome := func(code messages.Code, field, text, hint string) error {
		return api.StatusOf(&messages.Outcome{Code: code, Field: field, Text: text, Hint: hint})
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		err    error
		dialed error
		want   Error
	}{
		"ours": {err: outcome(messages.Code_CODE_CONFLICT, "request_id", "was used", "a fresh one"),
			want: Error{Code: messages.Code_CODE_CONFLICT, Text: "--request-id: was used", Hint: "a fresh one"}},
		"not found": {err: outcome(messages.Code_CODE_NOT_FOUND, "job", `unknown job "x"`, ""),
			want: Error{Code: messages.Code_CODE_NOT_FOUND, Text: `unknown job "x"`}},
		"lines": {err: outcome(messages.Code_CODE_INVALID, "", "a\nb", ""),
			want: Error{Code: messages.Code_CODE_INVALID, Text: "a b"}},
		"leading": {err: outcome(messages.Code_CODE_UNAVAILABLE, "", "taking over", "again"), dialed: refused,
			want: Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "taking over", Hint: "again"}},
		"no detail": {err: status.Error(codes.PermissionDenied, "not you"),
			want: Error{Code: messages.Code_CODE_NOT_ALLOWED, Text: "not you"}},
		"not there": {err: status.Error(codes.Unavailable, "connection error: desc = \"…\""), dialed: refused,
			want: Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "cannot reach the scheduler at h:1: connection refused",
				Hint: reachHint}},
		"no host": {err: status.Error(codes.Unavailable, "x"), dialed: &net.DNSError{IsNotFound: true},
			want: Error{Code: messages.Code_CODE_UNAVAILABLE,
				Text: "cannot reach the scheduler at h:1: unknown host",
				Hint: "correct --server or SYNAPSE_SERVER"}},
		"no answer": {err: status.Error(codes.Unavailable, "x"), dialed: fmt.Errorf("dial: %w", os.ErrDeadlineExceeded),
			want: Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "cannot reach the scheduler at h:1: no answer",
				Hint: "check for a firewall"}},
		"no network": {err: status.Error(codes.Unavailable, "x"),
			dialed: &net.OpError{Op: "dial", Err: errors.New("no route")},
			want: Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "cannot reach the scheduler at h:1: no route",
				Hint: reachHint}},
		"late": {err: status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
			want: Error{TimedOut: true, Text: "scheduler at h:1 did not answer in time",
				Hint: "try again: the scheduler may be busy or taking over"}},
		"older": {err: status.Error(codes.Unimplemented, "unknown method"),
			want: Error{Text: "scheduler at h:1 does not support this request",
				Hint: "run `synapse-cli version` to compare the versions"}},
		"broken": {err: status.Error(codes.Internal, "a bug\nof ours"),
			want: Error{Text: "scheduler at h:1 failed: a bug of ours", Hint: "read the scheduler's log"}},
	} {
		client := &server{address: "h:1"}
		client.dialed.Store(&c.dialed)
		err := client.explain(context.Background(), c.err)
		var got *Error
		if !errors.As(err, &got) || *got != c.want {
			t.Errorf("%s: %+v, want %+v", name, err, c.want)
		}
		if Lost(err) != (c.want.Code == messages.Code_CODE_UNAVAILABLE) {
			t.Errorf("%s: Lost is %v", name, Lost(err))
		}
	}
}

// TestOwnEnds checks that the error of the caller's context and the end of a stream are returned unchanged.
func TestOwnEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	client := &server{address: "h:1"}
	if err := client.explain(ctx, status.Error(codes.Canceled, "context canceled")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := client.explain(context.Background(), io.EOF); err != io.EOF {
		t.Error(err)
	}
	if err := client.explain(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestCredentials(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Config{
		"not a scheduler address": {Server: "head"},
		"ca: open ":               {Server: "h:1", CA: "/no/such/file"},
		"no certificate in":       {Server: "h:1", CA: empty},
		"cert and key must be":    {Server: "h:1", Cert: empty},
	} {
		_, err := Dial(c)
		var e *Error
		if !errors.As(err, &e) || e.Code != messages.Code_CODE_INVALID || !strings.Contains(e.Text, want) || e.Hint == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	plain, err := Dial(Config{Server: "[::1]:9000"})
	if err != nil || plain.Server() != "[::1]:9000" {
		t.Errorf("%v", err)
	}
	plain.Close()
}

// TestNoSecretInPlaintext checks that a job with secrets is not sent over an unencrypted connection.
func TestNoSecretInPlaintext(t *testing.T) {
	c, err := Dial(Config{Server: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spec := &messages.JobSpec{Secrets: []*messages.Secret{{Name: "a", Value: []byte("b")}}}
	_, err = c.Send(context.Background(), &messages.Submit{Spec: spec})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != messages.Code_CODE_NOT_ALLOWED {
		t.Errorf("it was sent: %v", err)
	}
}
