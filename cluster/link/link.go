// Package link carries messages between the actors of a scheduler process and those of the machines, over Proto.Actor's
// own gRPC service.
//
// A machine dials every scheduler and keeps one stream to each; it listens on nothing. Addresses are logical: a
// scheduler's, and node-ID. One table (table.go) says which actor may send what to which; whatever else comes in is
// dropped and counted, and the stream goes on. Delivery is at most once: a message for a link that is down, or that
// does not keep up, is dropped and counted. The link never resends.
//
// Proto.Actor's own remote.Remote is not used, only its wire: a peer that is hostile, or merely newer, must neither
// bring this process down nor stop, spawn or watch an actor in it. README.md says more.
package link

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what both ends are given at their start, and the limits, times and counters.

// The wire's version. Each end accepts the other if that is not older than oldest.
const (
	protocol = 1
	oldest   = 1
)

// The limits. What is above them is dropped and counted, or the stream ends.
const (
	maxBatchMessages  = envelope.MaxLetters // in one frame of the stream
	maxBatchBytes     = 256 << 10           // likewise, but for a single message that is longer
	maxMessageBytes   = messages.MaxMessageBytes
	maxFrameBytes     = messages.MaxFrameBytes
	maxQueuedMessages = messages.MaxQueuedMessages // that wait to be written to one peer
	maxQueuedBytes    = messages.MaxQueuedBytes
	maxPathBytes      = 1024 // of an actor
	bulky             = 64 << 10
	maxBulky          = 2       // messages above bulky that are decoded at the same time
	maxObjects        = 400_000 // parts of one message; the fullest ledger there can be has fewer

	// A peer that sends more than this for longer than paceBurst is read no faster.
	messageCost = time.Second / 10_000
	byteCost    = float64(time.Second) / (16 << 20)
	paceBurst   = time.Second

	maxMachines = 4 // that dial under one node's name: the true one and clones of it
)

// The times.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	// SilentFor is how long nothing may come of a peer, until its connection ends.
	SilentFor      = keepaliveTime + keepaliveTimeout
	connectTimeout = 5 * time.Second               // until a connection speaks HTTP/2
	idleTimeout    = 5 * time.Minute               // of a connection that no call or stream uses
	greetTimeout   = answerTimeout + 5*time.Second // until the other end has answered who it is
	minRetry       = 100 * time.Millisecond
	maxRetry       = 3 * time.Second // between two tries, if nobody accepts the connection
	// answerTimeout is how long a machine waits for an answer once its connection is accepted: it may stand in line for
	// a handshake. maxBusyRetry bounds the pause before it tries again.
	answerTimeout = 20 * time.Second
	maxBusyRetry  = 10 * time.Second
	// maxHint bounds what a scheduler may ask for. linkCost is what one link costs its processor, certificates and all.
	maxHint      = time.Minute
	linkCost     = 2 * time.Millisecond
	steadyAfter  = 10 * time.Second // a stream that was up for so long: the next retry waits minRetry again
	twinDoubt    = 5 * time.Second  // if another name led to the same scheduler within this time, it has two names
	twinWait     = time.Minute      // before such a name is tried again
	assembleStep = 2 * time.Millisecond
)

// The counters.
const (
	countUp          = "link.up"           // streams that came up
	countDown        = "link.down"         // and that ended
	countSuperseded  = "link.superseded"   // ended by a newer one of the same machine
	countRefused     = "link.refused"      // handshakes that were not accepted
	countSecond      = "link.second"       // streams of another machine under a name that is held
	countSent        = "link.sent"         // messages written
	countReceived    = "link.received"     // and delivered
	countNoLink      = "link.no_link"      // to a peer that has no stream now
	countFull        = "link.full"         // to one that does not keep up
	countUnsayable   = "link.unsayable"    // not in the table, not protobuf, or too long
	countSystem      = "link.system"       // Proto.Actor's own messages to an actor elsewhere
	countMalformed   = "link.malformed"    // frames, or parts of them, that make no sense; indexes that lead nowhere
	countUnknown     = "link.unknown"      // types that are not in the table
	countForbidden   = "link.forbidden"    // in the table, but not from there or to there
	countForged      = "link.forged"       // that name another machine than the stream's
	countInvalid     = "link.invalid"      // that their own Validate refused
	countDeadLetters = "link.dead_letters" // to an actor that is not there
	countPanicked    = "link.panicked"     // that made the reader panic
	countPaced       = "link.paced"        // waits, for peers that send too much
)

// Options holds the settings of an end.
type Options struct {
	Log   actors.Log
	Count func(name string, n int64)
	Clock clock.Clock
	Rand  func() float64 // in [0, 1): so that machines do not all dial at once

	// Address is a scheduler's own: "scheduler", or with several "scheduler-NAME".
	Address string
	// Certified is the machine that a stream's certificate names; nil: plaintext, where a machine is believed.
	Certified func(context.Context) (identity.Peer, error)

	// The rest is for machines.
	Node        topology.NodeID
	MachineID   string
	Incarnation *messages.Incarnation
	Schedulers  []string                         // host:port of each
	Credentials credentials.TransportCredentials // nil: plaintext
	Dialer      func(ctx context.Context, address string) (net.Conn, error)
}

// completed fills in what was left out.
func (o Options) completed() *Options {
	if o.Log == nil {
		o.Log = actors.NoLog{}
	}
	if o.Count == nil {
		o.Count = func(string, int64) {}
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Address == "" {
		o.Address = schedulerAddress
	}
	if o.Dialer == nil {
		dialer := &net.Dialer{Timeout: connectTimeout}
		o.Dialer = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	return &o
}

const (
	schedulerAddress = "scheduler"
	nodePrefix       = "node-"
	// second stands between a node's id and a machine's in the address of a machine that came under another machine's
	// name. No id contains it.
	second = "~"
)

// isScheduler reports whether an address is one that a scheduler may have.
func isScheduler(address string) bool {
	name, ok := strings.CutPrefix(address, schedulerAddress+"-")
	return address == schedulerAddress || ok && isID(name)
}

// isID reports whether s is an id that messages would accept.
func isID(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' && c != ':' {
			return false
		}
	}
	return s != "" && len(s) <= messages.MaxIDBytes
}
