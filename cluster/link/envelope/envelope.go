// Package envelope owns the form in which messages of actors cross between processes. It is Proto.Actor's own: the
// gRPC method remote.Remoting/Receive, and frames that are its RemoteMessage, so that a peer built on Proto.Actor's
// remote package understands them. That package itself is not used: it makes objects of all that it receives, and a
// frame that a hostile peer fills with empty parts becomes fifty times its size. Here frames pass gRPC as bytes, and
// their parts stay bytes until they are needed.
//
// This package knows only the form. The link decides who may send what to whom, and what happens to a message.
package envelope

// This file owns the names and numbers of the form: those of Proto.Actor's remote.proto and actor.proto.

const (
	service = "remote.Remoting"
	receive = "Receive"
)

// The fields' numbers.
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

// MaxLetters bounds the messages of one batch, and every list of names in it.
const MaxLetters = 512
