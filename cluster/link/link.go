// Package link carries messages between the actors of a scheduler process and those of the nodes, over Proto.Actor's
// gRPC service.
//
// A node dials every scheduler and keeps one stream to each. It listens on no port. Addresses are logical: a
// scheduler's, and node-ID. One table (table.go) lists which actor may send which message to which actor. Other
// messages are dropped and counted, and the stream continues. Delivery is at most once: a message for a link that is
// down or too slow is dropped and counted. The link never resends.
//
// The link uses Proto.Actor's wire format, but not its remote.Remote. A hostile or newer peer must not crash this
// process, and must not stop, create or watch its actors. README.md gives details.
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

// This file owns the options of both ends, and the limits, timeouts and counters.

// These are the versions of the wire format. Each end accepts a peer that is not older than oldest.
const (
	protocol = 1
	oldest   = 1
)

// These are the limits. Above them, a message is dropped and counted, or the stream ends.
const (
	maxBatchMessages  = envelope.MaxLetters // in one frame of the stream
	maxBatchBytes     = 256 << 10           // in one frame, except for a single longer message
	maxMessageBytes   = messages.MaxMessageBytes
	maxFrameBytes     = messages.MaxFrameBytes
	maxQueuedMessages = messages.MaxQueuedMessages // that wait to be written to one peer
	maxQueuedBytes    = messages.MaxQueuedBytes
	maxPathBytes      = 1024 // of an actor
	bulky             = 64 << 10
	maxBulky          = 2       // messages above bulky that are decoded at the same time
	maxObjects        = 400_000 // parts of one message; the fullest ledger has fewer

	// A peer that sends more than this for longer than paceBurst is read more slowly.
	messageCost = time.Second / 10_000
	byteCost    = float64(time.Second) / (16 << 20)
	paceBurst   = time.Second

	maxMachines = 4 // that dial under one node's name: the right node and its clones
)

// These are the timeouts.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	// SilentFor is how long a peer may send nothing before its connection ends.
	SilentFor      = keepaliveTime + keepaliveTimeout
	connectTimeout = 5 * time.Second               // until a connection has sent the HTTP/2 preface
	idleTimeout    = 5 * time.Minute               // of a connection without calls and streams
	greetTimeout   = answerTimeout + 5*time.Second // until the other end has sent its identity
	minRetry       = 100 * time.Millisecond
	maxRetry       = 3 * time.Second // between two attempts, if nobody accepts the connection
	// answerTimeout is how long a node waits for an answer after its connection is accepted, because it may be queued for
	// a handshake. maxBusyRetry limits the pause before the next attempt.
	answerTimeout = 20 * time.Second
	maxBusyRetry  = 10 * time.Second
	// maxHint limits the pause that a scheduler may request. linkCost is the CPU time of one link, including certificates.
	maxHint      = time.Minute
	linkCost     = 2 * time.Millisecond
	steadyAfter  = 10 * time.Second // after a stream of this duration, the next retry waits minRetry again
	twinDoubt    = 5 * time.Second  // two names that lead to one scheduler within this time are twins
	twinWait     = time.Minute      // before such a name is tried again
	assembleStep = 2 * time.Millisecond
)

// These are the counters.
const (
	countUp          = "link.up"           // streams that came up
	countDown        = "link.down"         // streams that ended
	countSuperseded  = "link.superseded"   // ended by a newer stream of the same node
	countRefused     = "link.refused"      // handshakes that were not accepted
	countSecond      = "link.second"       // streams of another machine under a name that is held
	countSent        = "link.sent"         // messages written
	countReceived    = "link.received"     // messages delivered
	countNoLink      = "link.no_link"      // messages to a peer that has no stream now
	countFull        = "link.full"         // messages to a peer that is too slow
	countUnsayable   = "link.unsayable"    // messages that are not in the table, not protobuf, or too long
	countSystem      = "link.system"       // Proto.Actor's own messages to an actor elsewhere
	countMalformed   = "link.malformed"    // invalid frames or parts of them; invalid indexes
	countUnknown     = "link.unknown"      // types that are not in the table
	countForbidden   = "link.forbidden"    // messages in the table with another sender or receiver
	countForged      = "link.forged"       // messages that name another node than the stream's
	countInvalid     = "link.invalid"      // messages that their own Validate refused
	countDeadLetters = "link.dead_letters" // messages to an actor that does not exist
	countPanicked    = "link.panicked"     // messages that made the reader panic
	countPaced       = "link.paced"        // pauses for peers that send too much
)

// Options holds the settings of an end.
type Options struct {
	Log   actors.Log
	Count func(name string, n int64)
	Clock clock.Clock
	Rand  func() float64 // in [0, 1); spreads the attempts of nodes over time

	// Address is a scheduler's own address: "scheduler", or with several schedulers "scheduler-NAME".
	Address string
	// Certified returns the identity in a stream's certificate. If it is nil, the connection is plaintext, and the node's
	// own statement counts.
	Certified func(context.Context) (identity.Peer, error)

	// The following options are for nodes.
	Node        topology.NodeID
	MachineID   string
	Incarnation *messages.Incarnation
	Schedulers  []string                         // host:port of each
	Credentials credentials.TransportCredentials // nil: plaintext
	Dialer      func(ctx context.Context, address string) (net.Conn, error)
}

// completed returns the options with defaults for unset ones.
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
	// second separates a node's ID from its machine ID in the address of a node that came under another node's name. No ID
	// contains it.
	second = "~"
)

// isScheduler reports whether an address is one that a scheduler may have.
func isScheduler(address string) bool {
	name, ok := strings.CutPrefix(address, schedulerAddress+"-")
	return address == schedulerAddress || ok && isID(name)
}

// isID reports whether s is an ID that messages accept.
func isID(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' && c != ':' {
			return false
		}
	}
	return s != "" && len(s) <= messages.MaxIDBytes
}
