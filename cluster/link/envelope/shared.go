package envelope

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns a message that goes to many: it is encoded for the first of them, and all others are sent those bytes.
// From then on it is nothing else, so that many may be kept: the fields of a message take several times as much.

// Shared is such a message, which nobody changes any more. Any other codec than ours takes it for the message that it
// has.
type Shared struct {
	of protoreflect.MessageType

	mu      sync.Mutex
	message proto.Message // nil: it is encoded
	text    []byte
}

// Share has a message encoded once, however often it is sent.
func Share(m proto.Message) *Shared { return &Shared{of: m.ProtoReflect().Type(), message: m} }

// ProtoReflect is the message that it has.
func (s *Shared) ProtoReflect() protoreflect.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.message != nil {
		return s.message.ProtoReflect()
	}
	m := s.of.New()
	if err := proto.Unmarshal(s.text, m.Interface()); err != nil {
		panic(fmt.Sprintf("what was encoded here cannot be decoded: %v", err))
	}
	return m
}

// encode is what is sent of it.
func (s *Shared) encode() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.message != nil {
		text, err := proto.Marshal(s.message)
		if err != nil {
			return nil, err
		}
		s.text, s.message = text, nil
	}
	return s.text, nil
}
