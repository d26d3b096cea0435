package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests many clients at once, and peers that are no clients.

// TestManyClients checks that a hundred jobs from eight concurrent clients all finish.
func TestManyClients(t *testing.T) {
	c := newCluster(t)
	for i := range 4 {
		c.node(fmt.Sprintf("n%d", i), "r1")
	}
	const clients, jobs = 8, 100
	ids := make([]string, jobs)
	var all sync.WaitGroup
	began := time.Now()
	for k := range clients {
		client := c.dial()
		all.Go(func() {
			for i := k; i < jobs; i += clients {
				ctx, cancel := context.WithTimeout(t.Context(), pace.Of(20*time.Second))
				reply, err := client.Submit(ctx, &messages.Submit{
					RequestId: fmt.Sprintf("many-%d", i), Spec: gang(int32(1+i%2), 1, "true"),
				})
				cancel()
				if err != nil {
					t.Errorf("job %d: %v", i, err)
					return
				}
				ids[i] = reply.Job
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	seen := map[string]bool{}
	for i, id := range ids {
		if s := c.await(id, "succeeded"); s.Record.Runs != 1 {
			t.Errorf("job %d ran %d times", i, s.Record.Runs)
		}
		seen[id] = true
	}
	if len(seen) != jobs {
		t.Errorf("%d different IDs for %d jobs", len(seen), jobs)
	}
	t.Logf("%d jobs of %d clients took %s", jobs, clients, time.Since(began).Round(time.Millisecond))
}

// TestHostileClients checks that the scheduler survives arbitrary data on its port and serves its clients.
func TestHostileClients(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }()
	conns := halfOpen(t, c.address, 500)
	for seed := range uint64(3) {
		all.Go(func() { babble(ctx, c.address, seed) })
	}
	all.Go(func() { shout(ctx, t, c.address) })

	for range 3 {
		id := c.submit(gang(2, 8, "true"))
		c.await(id, "succeeded")
	}
	stop()
	all.Wait()
	for _, conn := range conns {
		conn.Close()
	}
	select {
	case <-c.scheduler.ended:
		t.Fatalf("the scheduler ended: %v", c.scheduler.err)
	default:
	}
	if said := c.scheduler.said(); strings.Contains(said, "BUG") || strings.Contains(said, "DEAD") {
		t.Errorf("output of the scheduler:\n%s", said)
	}
	c.await(c.submit(gang(1, 8, "true")), "succeeded")
}

// preface is the beginning of an HTTP/2 connection.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// halfOpen opens connections that send nothing, or only a beginning.
func halfOpen(t *testing.T, address string, many int) (conns []net.Conn) {
	t.Helper()
	for i := range many {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { conn.Close() })
		if i%2 == 1 {
			_, _ = conn.Write([]byte(preface[:1+i%len(preface)]))
		}
		conns = append(conns, conn)
	}
	return conns
}

// babble sends meaningless bytes until it is stopped, with and without an HTTP/2 preface.
func babble(ctx context.Context, address string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		noise := make([]byte, 1+random.IntN(8<<10))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		if random.IntN(2) == 0 {
			// including settings
			noise = append([]byte(preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), noise...)
		}
		_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = conn.Write(noise)
		_, _ = conn.Read(make([]byte, 1<<10))
		conn.Close()
	}
}

// shout sends a hundred megabytes in one message, as a client and as a node.
func shout(ctx context.Context, t *testing.T, address string) {
	const large = 100 << 20
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(2*large)))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := api.NewSynapseClient(conn).
		Submit(ctx, &messages.Submit{RequestId: strings.Repeat("x", large)}); err == nil {
		t.Error("a submit of 100 MB was accepted")
	}
	as := metadata.AppendToOutgoingContext(ctx, "synapse-protocol", "1", "synapse-node", "n9", "synapse-machine", "m9",
		"synapse-boot", "b9", "synapse-started-ns", "1")
	stream, err := remote.NewRemotingClient(conn).Receive(as)
	if err != nil {
		return // the connection was refused
	}
	_ = stream.Send(&remote.RemoteMessage{
		MessageType: &remote.RemoteMessage_MessageBatch{
			MessageBatch: &remote.MessageBatch{TypeNames: []string{strings.Repeat("x", large)}},
		},
	})
	for err == nil {
		_, err = stream.Recv() // until the scheduler closes it
	}
}
