package messages

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// validated lists the messages with a Validate method, by name.
func validated(t testing.TB) []protoreflect.MessageType {
	all := published(t)
	names := make([]string, 0, len(all))
	for name, m := range all {
		if _, has := m.New().Interface().(validator); has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	types := make([]protoreflect.MessageType, len(names))
	for i, name := range names {
		types[i] = all[name]
	}
	return types
}

// FuzzDoor checks that any bytes decode, encode as the library encodes them, and validate without a panic, and that
// every error has a text. The first byte selects the type of the message.
func FuzzDoor(f *testing.F) {
	types := validated(f)
	for i, m := range types {
		f.Add(byte(i), []byte{})
		full, err := proto.Marshal(filled(m, 3).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), full)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		m := types[int(which)%len(types)].New().Interface()
		if proto.Unmarshal(data, m) != nil {
			return
		}
		sameBytes(t, m.(Message))
		err := m.(validator).Validate()
		if err == nil {
			_ = converted(m)
			return
		}
		var refusal *FieldError
		if !errors.As(err, &refusal) || refusal.Text == "" || refusal.Error() == "" {
			t.Fatalf("%T is refused by %#v", m, err)
		}
	})
}

// converted converts a message that Validate has accepted.
func converted(m proto.Message) any {
	switch x := m.(type) {
	case *Submit:
		return GangOf(x.Spec)
	case *Reserved:
		return FromShares(x.Grants[0].Gpus)
	case *Hello:
		return FromResources(x.Ledger.Free).Minus(FromResources(x.Ledger.Total))
	}
	return nil
}

// filled returns a message with every field set, to some depth of nesting.
func filled(t protoreflect.MessageType, depth int) protoreflect.Message {
	m := t.New()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList() && f.Message() != nil:
			if depth > 0 {
				list := m.Mutable(f).List()
				list.Append(protoreflect.ValueOfMessage(filled(list.NewElement().Message().Type(), depth-1)))
			}
		case f.IsList():
			m.Mutable(f).List().Append(scalar(f))
		case f.Message() != nil:
			if depth > 0 {
				m.Set(f, protoreflect.ValueOfMessage(filled(m.NewField(f).Message().Type(), depth-1)))
			}
		default:
			m.Set(f, scalar(f))
		}
	}
	return m
}

func scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("/a")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	}
	panic("no scalar of kind " + f.Kind().String())
}

// TestNothingIsRefusedWithoutAPanic checks that Validate does not panic on nil and on messages with nil fields.
func TestNothingIsRefusedWithoutAPanic(t *testing.T) {
	for _, m := range validated(t) {
		empty := m.New().Interface().(validator)
		if err := empty.Validate(); err == nil && !proto.Equal(empty, &ListTasks{}) && !proto.Equal(empty, &TaskList{}) &&
			!proto.Equal(empty, &KeepTasks{}) && !proto.Equal(empty, &UidsInUse{}) && !proto.Equal(empty,
			&LedgerRecord{}) && !proto.Equal(empty, &Unwatch{}) {
			t.Errorf("an empty %s passes", m.Descriptor().Name())
		}
		none := reflect.Zero(reflect.TypeOf(empty)).Interface().(validator)
		_ = none.Validate()
	}
}
