package caller

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// service is a fake that answers requests and records them.
type service struct {
	api.UnimplementedSynapseServer
	seen []*messages.Cancel
	sent int // events that the reader has received or that are buffered
	over chan struct{}
}

func (s *service) Cancel(ctx context.Context, q *messages.Cancel) (*messages.CancelReply, error) {
	s.seen = append(s.seen, q)
	_ = grpc.SetTrailer(ctx, metadata.Pairs("retry-after", "7"))
	if from(ctx) != "10.0.0.1:7" {
		return nil, errors.New("nobody asks")
	}
	if q.GetReason() == "late" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &messages.CancelReply{Job: q.GetJob() + "!"}, nil
}

func (s *service) Watch(q *messages.Watch, stream grpc.ServerStreamingServer[messages.Event]) error {
	defer close(s.over)
	if from(stream.Context()) != "10.0.0.1:7" || q.GetAfter() != 3 {
		return errors.New("nobody asks")
	}
	e := &messages.Event{}
	for e.Seq = 1; e.Seq < 1000; e.Seq++ { // the same message each time
		if err := stream.Send(e); err != nil {
			return err
		}
		s.sent++
	}
	return nil
}

func from(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return p.Addr.String()
}

// stage returns the API behind two interceptors that record the calls of one peer.
func stage(s *service, passed *[]string, refuse error) api.SynapseClient {
	guard := func(name string, refuse error) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
		return func(ctx context.Context, q any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				*passed = append(*passed, name+" "+i.FullMethod)
				if refuse != nil {
					return nil, refuse
				}
				return next(ctx, q)
			}, func(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				*passed = append(*passed, name+" "+i.FullMethod)
				if refuse != nil {
					return refuse
				}
				return next(srv, stream)
			}
	}
	firstCall, firstStream := guard("first", nil)
	call, stream := guard("second", refuse)
	all := &Service{API: s, Calls: []grpc.UnaryServerInterceptor{firstCall, call},
		Streams: []grpc.StreamServerInterceptor{firstStream, stream}}
	return all.As(peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}})
}

// TestCall checks that a call passes the interceptors in order with its peer, on a copy of the request, and ends
// with the caller's context.
func TestCall(t *testing.T) {
	s, passed := &service{}, []string{}
	client := stage(s, &passed, nil)
	q := &messages.Cancel{Job: "j1"}
	reply, err := client.Cancel(t.Context(), q)
	if err != nil || reply.GetJob() != "j1!" || s.seen[0] == q {
		t.Errorf("%v, %v", reply, err)
	}
	var said metadata.MD
	if _, err := client.Cancel(t.Context(), q, grpc.Trailer(&said)); err != nil || said.Get("retry-after")[0] != "7" {
		t.Errorf("beside its answer it says %v, %v", said, err)
	}
	passed = passed[:2]
	const name = "/synapse.v1.Synapse/Cancel"
	if !slices.Equal(passed, []string{"first " + name, "second " + name}) {
		t.Errorf("it passed %q", passed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Cancel(ctx, &messages.Cancel{Reason: "late"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("too late: %v", err)
	}
	if _, err := client.Cluster(t.Context(), &api.Cluster{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("what is not served: %v", err)
	}
}

// TestRefused checks that a call that an interceptor refuses is not served, and that the error arrives unchanged.
func TestRefused(t *testing.T) {
	s, passed := &service{over: make(chan struct{})}, []string{}
	no := api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Text: "no", Hint: "ask"})
	client := stage(s, &passed, no)
	_, err := client.Cancel(t.Context(), &messages.Cancel{Job: "j1"})
	if o := api.OutcomeOf(err); o.GetCode() != messages.Code_CODE_NOT_ALLOWED || o.GetHint() != "ask" || len(s.seen) != 0 {
		t.Errorf("%v, %d calls", err, len(s.seen))
	}
	stream, err := client.Watch(t.Context(), &messages.Watch{})
	if err == nil {
		if header, err := stream.Header(); err != nil || header != nil {
			t.Errorf("it has begun: %v, %v", header, err)
		}
		_, err = stream.Recv()
	}
	if o := api.OutcomeOf(err); o.GetText() != "no" {
		t.Errorf("a stream: %v", err)
	}
}

// TestStream checks that each answer of a stream arrives as it was when it was sent. A service waits for a slow
// reader, and ends when the reader cancels.
func TestStream(t *testing.T) {
	s, passed := &service{over: make(chan struct{})}, []string{}
	stream, err := stage(s, &passed, nil).Watch(t.Context(), &messages.Watch{After: 3})
	if err != nil {
		t.Fatal(err)
	}
	if header, err := stream.Header(); err != nil || header == nil {
		t.Errorf("it has not begun: %v", err)
	}
	for want := uint64(1); ; want++ {
		e, err := stream.Recv()
		if err == io.EOF && want == 1000 {
			break
		}
		if err != nil || e.GetSeq() != want {
			t.Fatalf("answer %d is %v, %v", want, e, err)
		}
	}
	s = &service{over: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := stage(s, &passed, nil).Watch(ctx, &messages.Watch{After: 3}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.over:
		t.Error("nobody reads, and all was sent")
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	<-s.over
	if s.sent > maxUnread {
		t.Errorf("%d answers were held, at most %d", s.sent, maxUnread)
	}
}

// Exec receives encoded requests and sends encoded answers, except the last.
func (s *service) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	for {
		var piece envelope.Passed
		if err := stream.RecvMsg(&piece); errors.Is(err, io.EOF) {
			return stream.Send(&api.ExecOut{End: &api.ExecEnd{Code: 7}})
		} else if err != nil {
			return err
		}
		var q api.ExecIn
		if err := piece.Into(&q); err != nil {
			return err
		}
		if err := piece.From(&api.ExecOut{Session: q.GetJob()}); err != nil {
			return err
		}
		if err := stream.SendMsg(&piece); err != nil {
			return err
		}
	}
}

// TestHandedOn checks that encoded requests and answers arrive unchanged.
func TestHandedOn(t *testing.T) {
	stream, err := stage(&service{}, &[]string{}, nil).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"first", "", strings.Repeat("long ", 30_000)} {
		if err := stream.Send(&api.ExecIn{Job: word}); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err != nil || out.GetSession() != word {
			t.Errorf("%q comes back as %v, %v", word, out, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if out, err := stream.Recv(); err != nil || out.GetEnd().GetCode() != 7 {
		t.Errorf("the end is %v, %v", out, err)
	}
}
