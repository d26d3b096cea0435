package envelope

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// This file owns a message that goes to many: it is encoded for the first of them, and all others are sent those bytes.

// Shared is such a message, which nobody changes any more. Any other codec than ours takes it for the message that it
// has.
type Shared struct {
	proto.Message
	text func() ([]byte, error)
}

// Share has a message encoded once, however often it is sent.
func Share(m proto.Message) *Shared {
	return &Shared{m, sync.OnceValues(func() ([]byte, error) { return proto.Marshal(m) })}
}
