package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests changes while the store cannot be written.

// changes lists the calls that wait for the store, each with a valid request.
var changes = map[string]func(context.Context, *servedGateway) error{
	"Submit": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.Submit(ctx, &messages.Submit{RequestId: "r1", Spec: gpuJob("a", 1, 1)})
		return err
	},
	"SubmitScript": func(ctx context.Context, d *servedGateway) error {
		spec := gpuJob("a", 1, 1)
		script, err := messages.NewScript("a.sh", []byte("#!/bin/sh\n"))
		if err != nil {
			return err
		}
		spec.Command, spec.Script = nil, script
		_, err = d.SynapseClient.SubmitScript(ctx, &messages.Submit{RequestId: "r2", Spec: spec})
		return err
	},
	"Cancel": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.Cancel(ctx, &messages.Cancel{Job: "job-1"})
		return err
	},
	"Hold": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.Hold(ctx, &messages.Hold{Job: "job-1"})
		return err
	},
	"Requeue": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.Requeue(ctx, &messages.Requeue{Job: "job-1"})
		return err
	},
	"Update": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.Update(ctx, &messages.Update{Job: "job-1", SetPriority: true, Priority: 3})
		return err
	},
	"ChangeNode": func(ctx context.Context, d *servedGateway) error {
		_, err := d.SynapseClient.ChangeNode(ctx,
			&messages.ChangeNode{Node: "n1", Verb: messages.NodeVerb_NODE_VERB_CORDON, Reason: "fan"})
		return err
	},
	"ApplyQueues": func(ctx context.Context, d *servedGateway) error {
		queues := &messages.Queues{Queues: []*messages.QueueSpec{{Name: "a"}}}
		_, err := d.SynapseClient.ApplyQueues(ctx, &messages.ApplyQueues{Queues: queues})
		return err
	},
}

// others lists the calls that wait for no change: they read, or use the store without an actor.
var others = []string{
	"ReadScript", "ReadSecrets", "DryRun", "GetQueues", "GetEfficiency", "GetJob", "ListJobs", "ListNodes", "ExplainJob",
	"History", "Cluster", "WhoAmI", "CreatePass", "ListPasses", "RevokePass",
	"Checkpoint",   // opens a request, which is not on disk
	"OwnJob",       // makes a change as Requeue and Cancel do, after a read
	"SubmitSecret", // like SubmitScript, with encryption
}

// TestUnwritable checks that while the store cannot be written, every change is refused with the cause before the
// client's deadline. It does not matter whether the store failed before or during the call.
func TestUnwritable(t *testing.T) {
	for _, method := range api.Synapse_ServiceDesc.Methods {
		if changes[method.MethodName] == nil && !slices.Contains(others, method.MethodName) {
			t.Errorf("%s is neither a change nor a call that waits for no decision", method.MethodName)
		}
	}
	r := newRoom(t)
	silent := func(actor.Context) {}
	for _, before := range []bool{true, false} {
		memory := store.NewMemory()
		if _, err := memory.Lead("test"); err != nil {
			t.Fatal(err)
		}
		d := r.door(r.script(silent, silent), Options{
			Scripts: memory, Leader: func() Leader { return Leader{Here: true, Epoch: 1} },
		})
		for name, change := range changes {
			d.Unwritable("")
			if before {
				d.Unwritable("the disk is full")
			}
			answer := make(chan error, 1)
			go func() { answer <- change(timely(t), d) }()
			if !before {
				select {
				case err := <-answer:
					t.Errorf("%s was answered while nothing was wrong: %v", name, err)
					continue
				case <-time.After(changeTime + changeTime/4):
				}
				d.Unwritable("the disk is full")
			}
			if !t.Run(name, func(t *testing.T) {
				refused(t, <-answer, messages.Code_CODE_UNAVAILABLE, codes.Unavailable,
					"scheduler cannot write to its store: the disk is full")
			}) {
				return // the other calls would take as long
			}
		}
	}
}

// TestWritableAgain checks that a client gets the answer if the store recovers while a change waits.
func TestWritableAgain(t *testing.T) {
	r := newRoom(t)
	d := r.door(r.script(func(ctx actor.Context) {
		if m, is := ctx.Message().(*messages.Cancel); is {
			ctx.Respond(&messages.CancelReply{Job: m.Job, Outcome: messages.OK()})
		}
	}, nil), Options{})
	d.Unwritable("the disk is full")
	if err := changes["Cancel"](timely(t), d); err != nil {
		t.Errorf("a change that was written: %v", err)
	}
}

// hanging is a store whose calls wait for the test.
type hanging struct {
	letGo  chan struct{}
	inside *atomic.Int64 // calls that have not ended
}

func (h hanging) hang() {
	h.inside.Add(1)
	defer h.inside.Add(-1)
	<-h.letGo
}

func (h hanging) KeepScript(uint64, []byte) error             { h.hang(); return nil }
func (h hanging) Script(string) ([]byte, error)               { h.hang(); return nil, store.ErrNotFound }
func (h hanging) KeepPass(uint64, *messages.PassRecord) error { h.hang(); return nil }
func (h hanging) DropPass(uint64, string) error               { h.hang(); return nil }
func (h hanging) Passes() ([]*messages.PassRecord, error)     { h.hang(); return nil, nil }

// listing is a hanging store whose tokens can be read.
type listing struct {
	hanging
	passes []*messages.PassRecord
}

func (l listing) Passes() ([]*messages.PassRecord, error) { return l.passes, nil }

// TestStoreHangs checks that changes without actors are answered while the store blocks, whether or not a leader
// has noticed. Reads end with the client's deadline. The number of calls in the store is limited, and the others
// wait.
func TestStoreHangs(t *testing.T) {
	r := newRoom(t)
	h := hanging{make(chan struct{}), &atomic.Int64{}}
	silent := func(actor.Context) {}
	one := &messages.PassRecord{Id: "abcdefgh", UntilUnixMs: 1 << 60}
	d := r.door(r.script(silent, silent), Options{
		Scripts: h, Passes: listing{h, []*messages.PassRecord{one}}, WallMs: func() int64 { return 1 },
		Leader: func() Leader { return Leader{Here: true, Epoch: 1} },
	})
	create := &api.CreatePass{Hash: make([]byte, 32), Role: "viewer", Name: "ann", TtlMs: 1000}
	for name, call := range map[string]func(context.Context) error{
		"SubmitScript": func(ctx context.Context) error { return changes["SubmitScript"](ctx, d) },
		"CreatePass":   func(ctx context.Context) error { _, err := d.SynapseClient.CreatePass(ctx, create); return err },
		"RevokePass": func(ctx context.Context) error {
			_, err := d.SynapseClient.RevokePass(ctx, &api.RevokePass{Id: one.Id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, why := range []string{"", "the disk is full"} {
				d.Unwritable(why)
				refused(t, call(timely(t)), messages.Code_CODE_UNAVAILABLE, codes.Unavailable, cmp.Or(why, "store does not answer"))
			}
		})
	}
	read := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(timely(t), within)
		defer cancel()
		_, err := d.SynapseClient.ReadScript(ctx, &api.ReadScript{Digest: messages.ScriptDigest([]byte("x"))})
		return err
	}
	for range 2 * mostStored {
		if err := read(20 * time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("a store that hangs: %v", err)
		}
	}
	if n := h.inside.Load(); n != mostStored {
		t.Errorf("%d calls are in the store, want %d", n, mostStored)
	}
	close(h.letGo)
	if !pace.Wait(patience, func() bool { return status.Code(read(patience)) == codes.NotFound }) {
		t.Error("a store that answers again is not asked")
	}
}
