package envelope

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns the estimate of a message's size after decoding.

// Objects returns the rest of a budget after counting every part of a message. The result is negative if the budget is
// too small or the message cannot be decoded. An empty part takes two bytes here, and a hundred and fifty after
// decoding.
func Objects(d protoreflect.MessageDescriptor, data []byte, budget int) int {
	fields := d.Fields()
	p, rest := next(data)
	for ; p.ok && budget >= 0; p, rest = next(rest) {
		if p.kind != protowire.BytesType {
			continue
		}
		if f := fields.ByNumber(p.number); f != nil && f.Message() != nil {
			budget = Objects(f.Message(), p.bytes, budget-1)
		}
	}
	if !whole(rest) {
		return -1
	}
	return budget
}
