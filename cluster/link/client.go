package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/cluster/link/envelope"
)

// Client is a node's end of its links, one to every scheduler. It dials an unreachable scheduler forever, because a
// node that gave up would have to be repaired by hand.
type Client struct {
	o      *Options
	system *actor.ActorSystem
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.RWMutex
	lines   map[string]*line   // by the scheduler's address
	dialled map[string]dialled // by the same address
	running sync.WaitGroup
}

// Dial makes the actor system reachable under the node's address and starts to dial. The caller must call it before it
// creates any actor, because a PID gets its address at its creation.
func Dial(system *actor.ActorSystem, o Options) *Client {
	c := &Client{o: o.completed(), system: system, lines: map[string]*line{}, dialled: map[string]dialled{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	system.ProcessRegistry.Address = nameOf(o.Node)
	out := &sender{o: c.o, may: towardScheduler, ours: nameOf(o.Node), find: c.find}
	system.ProcessRegistry.RegisterAddressResolver(func(to *actor.PID) (actor.Process, bool) {
		return out, strings.HasPrefix(to.Address, schedulerAddress)
	})
	for _, target := range o.Schedulers {
		c.running.Add(1)
		go c.keep(target)
	}
	return c
}

func (c *Client) find(to *actor.PID, _ any) *line {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lines[to.Address]
}

// Close ends every stream and waits until no goroutine of the link runs.
func (c *Client) Close() {
	c.cancel()
	c.running.Wait()
}

// keep maintains a stream to one scheduler until Close.
func (c *Client) keep(target string) {
	defer c.running.Done()
	tries, said := newRetry(), ""
	for c.ctx.Err() == nil {
		began := c.o.Clock.Now()
		reached, err := c.session(target)
		if c.ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said { // logged once, not with every attempt
			said = text
			c.o.Log.Info("No link to the scheduler at %s: %s; retrying", target, text)
		}
		if c.o.Clock.Now().Sub(began) >= steadyAfter {
			tries, said = newRetry(), ""
		}
		pause := tries.failed(reached, hintOf(err), c.o.Rand)
		if _, ok := err.(twin); ok {
			pause = twinWait
		}
		select {
		case <-c.o.Clock.After(pause):
		case <-c.ctx.Done():
		}
	}
}

// dialled records where a scheduler was last found.
type dialled struct {
	target string
	at     time.Time
}

// twin is the error of a second dialed name that leads to the same scheduler. A scheduler keeps one stream per node, so
// the two streams would close each other forever.
type twin struct{ address, other string }

func (t twin) Error() string {
	return fmt.Sprintf("scheduler %s is already linked at %s: list each scheduler once", t.address, t.other)
}

// session is one connection with one stream, from beginning to end. The result reached reports that the connection was
// accepted.
func (c *Client) session(target string) (reached bool, err error) {
	var accepted atomic.Bool
	conn, err := grpc.NewClient("passthrough:///"+target, dialOptions(c.o, &accepted)...)
	if err != nil {
		return false, fmt.Errorf("dialling: %w", err)
	}
	err = c.stream(target, conn)
	return accepted.Load(), err
}

// stream opens the stream of a connection, and carries messages until it ends.
func (c *Client) stream(target string, conn *grpc.ClientConn) error {
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(c.ctx, c.o.introduction()))
	defer cancel()
	stream, who, err := c.greet(ctx, cancel, conn)
	if err != nil {
		return err
	}
	l := newLine(c.o, c.system, stream, nameOf(c.o.Node), who.address, towardNode)
	l.hangUp, l.conn = cancel, conn
	if err := c.attach(l, target); err != nil {
		return err
	}
	c.o.Log.Info("Linked to %s at %s%s", who.address, target, who.leads())
	l.out.begin()
	heard := l.read()
	c.detach(l)
	l.out.writers.Wait()
	err = fmt.Errorf("link broke: %w", l.why)
	if heard {
		return hinted(err, stream.Trailer())
	}
	return err
}

func (s standing) leads() string {
	switch {
	case s.epoch != 0:
		return fmt.Sprintf(", which leads (epoch %d)", s.epoch)
	case s.leader != "":
		return ", which follows " + s.leader
	}
	return ""
}

// greet opens the stream and learns which scheduler is at the other end. A peer that accepts and sends nothing is given
// up after greetTimeout.
func (c *Client) greet(
	ctx context.Context, cancel context.CancelFunc, peer grpc.ClientConnInterface,
) (grpc.ClientStream, standing, error) {
	answered := make(chan struct{})
	defer close(answered)
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		select {
		case <-c.o.Clock.After(greetTimeout):
			cancel()
		case <-answered:
		}
	}()
	stream, err := envelope.Open(ctx, peer)
	if err != nil {
		return nil, standing{}, err
	}
	md, err := stream.Header()
	if err != nil {
		return nil, standing{}, err
	}
	if one(md, keyAddress) == "" { // the stream was refused; its error has the reason
		if err := envelope.Receive(stream, &envelope.Frame{}); err != nil {
			return nil, standing{}, hinted(err, stream.Trailer())
		}
	}
	who, err := understand(md)
	return stream, who, err
}

func (c *Client) attach(l *line, target string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, last := c.o.Clock.Now(), c.dialled[l.theirs]
	if last.target != "" && last.target != target && (c.lines[l.theirs] != nil || now.Sub(last.at) < twinDoubt) {
		return twin{l.theirs, last.target}
	}
	c.dialled[l.theirs], c.lines[l.theirs] = dialled{target, now}, l
	c.o.Count(countUp, 1)
	return nil
}

func (c *Client) detach(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lines, l.theirs)
	l.end(errSilent)
	c.o.Count(countDown, 1)
}
