package main

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// waiting is a fake scheduler that waits for nodes, sends a command, and ends with the command.
type waiting struct{ api.UnimplementedSynapseServer }

func (waiting) Carry(stream grpc.BidiStreamingServer[api.ExecOut, api.ExecIn]) error {
	_, err := stream.Recv()
	if err == nil {
		err = stream.Send(&api.ExecIn{Command: []string{"true"}})
	}
	for err == nil {
		var out *api.ExecOut
		if out, err = stream.Recv(); out.GetEnd() != nil {
			return nil
		}
	}
	return err
}

// linked is a link with one scheduler.
type linked struct{ conn grpc.ClientConnInterface }

func (l linked) Ask(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error {
	return do(ctx, l.conn)
}

// TestCarryLeavesNothing checks that no goroutine remains after a process has ended, even if its input was still
// being read, as the launcher does.
func TestCarryLeavesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterSynapseServer(server, waiting{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := 0
	for i := range 50 {
		if i == 1 {
			before = runtime.NumGoroutine() // including those of the connection
		}
		ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
		err := carry(ctx, linked{conn}, "session", func(w launcher.Wire) error {
			if _, err := w.Receive(); err != nil {
				return err
			}
			go func() {
				for {
					if _, err := w.Receive(); err != nil {
						return
					}
				}
			}()
			time.Sleep(time.Millisecond) // it is listening
			return w.Send(&launcher.Outgoing{Ended: true})
		})
		if late := ctx.Err(); err != nil || late != nil {
			t.Fatalf("%d: %v, %v", i, err, late)
		}
		cancel()
	}
	for limit := pace.Until(time.Minute); runtime.NumGoroutine() > before+5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines, and there were %d", runtime.NumGoroutine(), before)
		}
	}
}
