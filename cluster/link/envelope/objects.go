package envelope

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file owns the estimate of what decoding a message would cost.

// Objects is what remains of a budget when every part of a message is counted;
// negative: too little, or it cannot be decoded. An empty part is two bytes here
// and a hundred and fifty when it is decoded.
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
