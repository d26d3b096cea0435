// Package envelope encodes and decodes the actor messages that cross between processes. The format is Proto.Actor's:
// the gRPC method remote.Remoting/Receive, and frames of type RemoteMessage. A peer with Proto.Actor's remote package
// therefore understands them. That package itself is not used, because it creates objects for everything that it
// receives. A hostile frame full of empty parts would grow fifty times. Here frames pass through gRPC as bytes, and
// their parts stay bytes until they are needed.
//
// This package knows the format only. The link decides which messages may pass, and what happens to them.
package envelope

// This file owns the names and numbers of the format, from Proto.Actor's remote.proto and actor.proto.

const (
	service = "remote.Remoting"
	receive = "Receive"
)

// These are the field numbers.
const (
	frameBatch = 1 // RemoteMessage.message_batch

	batchTypeNames = 1
	batchTargets   = 2
	batchEnvelopes = 3
	batchSenders   = 4

	envelopeType       = 1
	envelopeData       = 2
	envelopeTarget     = 3
	envelopeSender     = 4
	envelopeSerializer = 5

	pidAddress = 1
	pidPath    = 2
)

// MaxLetters limits the messages of one batch, and every list of names in it.
const MaxLetters = 512
