package gateway

// This file tests that missing or wrong answers, panics and hostile input do no damage.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestEveryCodeArrives checks that each code of an actor's answer arrives unchanged.
func TestEveryCodeArrives(t *testing.T) {
	var outcome *messages.Outcome
	r := newRoom(t)
	d := r.door(r.script(func(ctx actor.Context) {
		if _, is := ctx.Message().(*messages.Submit); is {
			ctx.Respond(&messages.SubmitReply{Outcome: outcome, Job: "j"})
		}
	}, nil), Options{})
	for number, name := range messages.Code_name {
		outcome = &messages.Outcome{Code: messages.Code(number), Field: "f", Text: "t", Hint: "h"}
		_, err := d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: gpuJob("x", 1, 1)})
		got := api.OutcomeOf(err)
		switch {
		case outcome.Code == messages.Code_CODE_OK:
			if err != nil {
				t.Error(err)
			}
		case got.GetCode() != outcome.Code || got.Field != "f" || got.Text != "t" || got.Hint != "h" ||
			!strings.Contains(err.Error(), "f: t (h)"):
			t.Errorf("%s arrives as %v: %v", name, got, err)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	r := newRoom(t)
	asked := make(chan *actor.PID, 8)
	s := r.script(func(ctx actor.Context) {
		if ctx.Sender() != nil {
			asked <- ctx.Sender()
		}
	}, nil)
	d := r.door(s, Options{})
	var late *actor.PID
	for limit := 30 * time.Millisecond; late == nil; limit *= 2 { // a busy host may be too slow
		ctx, cancel := context.WithTimeout(timely(t), limit)
		_, err := d.SynapseClient.Submit(ctx, &messages.Submit{Spec: gpuJob("x", 1, 1)})
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("past the deadline: %v", err)
		}
		select {
		case late = <-asked:
		default:
		}
	}
	eventually(t, "the reply process is gone", func() bool {
		_, there := s.ProcessRegistry.GetLocal(late.Id)
		return !there
	})
	s.Root.Send(late, &messages.SubmitReply{}) // no process receives it, and nothing happens

	if bounded, cancel := timed(context.Background()); true {
		until, has := bounded.Deadline()
		if left := time.Until(until); !has || left > callTimeout || left < callTimeout/2 {
			t.Errorf("a call without a deadline has %v", left)
		}
		cancel()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: gpuJob("x", 1, 1)})
		ended <- err
	}()
	<-asked
	d.Close()
	refused(t, <-ended, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "shutting down")
}

func TestWrongAnswer(t *testing.T) {
	r := newRoom(t)
	d := r.door(r.script(func(ctx actor.Context) {
		if ctx.Sender() != nil {
			ctx.Respond(&messages.CancelReply{})
			ctx.Respond(&messages.SubmitReply{}) // a second answer is ignored
		}
	}, nil), Options{})
	_, err := d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: gpuJob("x", 1, 1)})
	if status.Code(err) != codes.Internal {
		t.Errorf("an answer of another kind: %v", err)
	}
}

func TestPanicsCostOneCall(t *testing.T) {
	r := newRoom(t)
	harm := true
	d := r.door(r.script(anyScheduler, (&told{}).receive), Options{Principal: func(context.Context) *messages.Principal {
		if harm {
			panic("secret")
		}
		return &messages.Principal{Name: "a"}
	}})
	_, err := d.SynapseClient.Submit(timely(t), &messages.Submit{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") ||
		strings.Contains(err.Error(), ".go") {
		t.Errorf("a call that panics says %v", err)
	}
	w, err := d.SynapseClient.Watch(timely(t), &messages.Watch{Jobs: true})
	if err == nil {
		_, err = w.Recv()
	}
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("a stream that panics says %v", err)
	}
	if said := r.said("/synapse.v1.Synapse/Submit panicked: secret"); len(said) != 1 ||
		!strings.Contains(said[0], "guard.go") {
		t.Errorf("the log says %q", said)
	}
	if n := r.counts["gateway.panics"]; n != 2 {
		t.Errorf("%d panics were counted", n)
	}
	harm = false
	_, err = d.SynapseClient.Submit(timely(t), &messages.Submit{})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "spec: is missing")
}

// harmful is a stream that panics on receive.
type harmful struct {
	grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]
	ctx context.Context
}

func (h harmful) Context() context.Context { return h.ctx }
func (h harmful) RecvMsg(any) error        { panic("secret") }

// listener is the other end of the stream, a node that sends nothing.
type listener struct {
	grpc.BidiStreamingServer[api.ExecOut, api.ExecIn]
	ctx context.Context
}

func (l listener) Context() context.Context { return l.ctx }
func (l listener) Send(*api.ExecIn) error   { return nil }
func (l listener) RecvMsg(any) error {
	<-l.ctx.Done()
	return l.ctx.Err()
}

// TestPanicsBesideACall checks that a panic in a goroutine of a call ends only that call.
func TestPanicsBesideACall(t *testing.T) {
	r := newRoom(t)
	g := New(actor.NewActorSystem(), Options{Log: r, Count: r.Count})
	ctx := timely(t)
	err := g.carry(&api.ExecIn{}, harmful{ctx: ctx}, listener{ctx: ctx})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("a further process whose client panics says %v", err)
	}
	if n := r.counts["gateway.panics"]; n != 1 {
		t.Errorf("%d panics were counted", n)
	}
}

// raw sends bytes unchanged.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }

var _ encoding.CodecV2 = raw{}

// TestHostileInput checks that malformed requests are refused, and that the next call is answered.
func TestHostileInput(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	send := func(method string, data []byte) error {
		return d.conn.Invoke(timely(t), method, data, &struct{}{}, grpc.ForceCodecV2(raw{}), grpc.MaxCallSendMsgSize(1<<30))
	}
	huge := make([]byte, 100<<20)
	if err := send(api.Synapse_Submit_FullMethodName, huge); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("100 MiB: %v", err)
	}
	for name, data := range map[string][]byte{
		"invalid UTF-8": {0x12, 2, 0xff, 0xfe}, "a length beyond the end": {0x12, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"no field":    {0xff},
		"deep groups": []byte(strings.Repeat("\x0b", 20_000)),
	} {
		for _, method := range []string{api.Synapse_Submit_FullMethodName, api.Synapse_GetJob_FullMethodName,
			api.Scheduler_SubmitJob_FullMethodName} {
			if err := send(method, data); err == nil || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%s to %s: %v", name, method, err)
			}
		}
	}
	for name, spec := range map[string]*messages.JobSpec{
		"a negative amount": {Name: "x", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
			Each: &messages.Resources{MilliCpu: -1 << 63}},
		"more than there is in the world": {Name: "x", Image: "host",
			Gang: &messages.GangSpec{ReplicasMin: 1 << 30, ReplicasMax: 1 << 30},
			Each: &messages.Resources{MilliGpu: 1 << 62}},
		"a huge name": gpuJob(strings.Repeat("x", 3<<20), 1, 1),
		"no gang":     {Name: "x", Image: "host"},
	} {
		_, err := d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: spec, AllowInfeasible: true})
		if api.OutcomeOf(err).GetCode() != messages.Code_CODE_INVALID {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.SynapseClient.Submit(timely(t),
		&messages.Submit{Spec: gpuJob("fine", 1, 1), AllowInfeasible: true}); err != nil {
		t.Error(err)
	}
}
