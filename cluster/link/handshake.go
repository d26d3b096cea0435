package link

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/topology"
)

// This file owns how the two ends introduce themselves, by the stream's metadata in both directions. Metadata arrives
// before any byte of the stream is read, so no half-open stream waits for its first message.

const (
	keyProtocol    = "synapse-protocol"
	keyNode        = "synapse-node"
	keyMachine     = "synapse-machine"
	keyBoot        = "synapse-boot"
	keyIncarnation = "synapse-started-ns"
	keyAddress     = "synapse-address"
	keyEpoch       = "synapse-epoch"
	keyLeader      = "synapse-leader"
)

// caller is a node's identity, as the node itself states it.
type caller struct {
	node      topology.NodeID
	machine   string
	boot      string
	startedNs int64
	key       identity.Digest // the authenticated key; zero: plaintext
	bounds    identity.Bounds // claims that its certificate allows
}

// introduction returns the metadata that a node sends first.
func (o *Options) introduction() metadata.MD {
	return metadata.Pairs(
		keyProtocol, strconv.Itoa(protocol), keyNode, string(o.Node), keyMachine, o.MachineID,
		keyBoot, o.Incarnation.GetBootId(), keyIncarnation, strconv.FormatInt(o.Incarnation.GetStartedNs(), 10),
	)
}

// one returns the value of a key that occurs exactly once.
func one(md metadata.MD, key string) string {
	if all := md.Get(key); len(all) == 1 {
		return all[0]
	}
	return ""
}

// recognise reads a node's introduction. A refusal here repeats until an operator fixes the cause. The error's text is
// for that operator.
func (o *Options) recognise(ctx context.Context) (caller, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if err := checkVersion(one(md, keyProtocol)); err != nil {
		return caller{}, status.Error(codes.FailedPrecondition, err.Error())
	}
	c := caller{node: topology.NodeID(one(md, keyNode)), machine: one(md, keyMachine), boot: one(md, keyBoot)}
	var err error
	c.startedNs, err = strconv.ParseInt(one(md, keyIncarnation), 10, 64)
	if err != nil || !isID(string(c.node)) || !isID(c.machine) || !isID(c.boot) {
		return caller{}, status.Error(codes.InvalidArgument,
			"introduction is incomplete: node, machine, boot and start are required")
	}
	if o.Certified == nil {
		return c, nil
	}
	certified, err := o.Certified(ctx)
	if err != nil {
		return caller{}, status.Error(codes.Unauthenticated, err.Error())
	}
	if certified.Name != string(c.node) {
		return caller{}, status.Errorf(codes.PermissionDenied,
			"node ID is %s, but the certificate is for %s: set --id to the certificate's name",
			c.node, certified.Name)
	}
	if id, ok := certified.Bounds[identity.BoundMachine]; ok && id != c.machine {
		return caller{}, status.Error(codes.PermissionDenied, "certificate is for another machine: it was issued to "+
			"another machine ID, because --data-dir is new or belongs to another node; to join as this machine, remove the "+
			"folder of --tls and join with a token for this name")
	}
	c.key, c.bounds = certified.Key, certified.Bounds
	return c, nil
}

// checkVersion refuses a peer whose protocol version is too old.
func checkVersion(version string) error {
	n, err := strconv.Atoi(version)
	if err != nil || n < oldest {
		return fmt.Errorf("protocol version %.16q is too old, the oldest is %d: upgrade that side first",
			version, oldest)
	}
	return nil
}

// standing holds the answer of a scheduler process: its own address, and which process leads.
type standing struct {
	address string
	epoch   uint64 // the epoch of this process; 0: it does not lead
	leader  string // host:port of the leading process, if known
}

func (s standing) metadata() metadata.MD {
	return metadata.Pairs(
		keyProtocol, strconv.Itoa(protocol), keyAddress, s.address,
		keyEpoch, strconv.FormatUint(s.epoch, 10), keyLeader, s.leader,
	)
}

// understand reads a scheduler's answer.
func understand(md metadata.MD) (standing, error) {
	s := standing{address: one(md, keyAddress), leader: one(md, keyLeader)}
	if !isScheduler(s.address) {
		return s, fmt.Errorf("server is not a scheduler: its address is %.64q", s.address)
	}
	if err := checkVersion(one(md, keyProtocol)); err != nil {
		return s, err
	}
	s.epoch, _ = strconv.ParseUint(one(md, keyEpoch), 10, 64)
	return s, nil
}
