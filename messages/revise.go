package messages

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns how a record that was handed on becomes the next version of it.

// Revise makes the next version of a record that others hold: its own fields may
// be set anew, and all that lies below is shared with the version before, so
// whoever changes a list or a part of it puts another one there. A record of a
// gang is large below and its changes are at the top.
func Revise[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return to.Interface().(M)
}
