package httpapi

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/server/api"
)

// This file maps the names of fields in JSON. The name is the field's json_name if it is set, and otherwise the
// field's name. The binary format contains only numbers, so a message is converted to its public form through its
// bytes.

// encoding writes a public form with the names of its descriptors.
var encoding = protojson.MarshalOptions{UseProtoNames: true}

// encode returns the JSON of a message.
func encode(m proto.Message) ([]byte, error) {
	wire, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	p := publicForm(m)
	if err := proto.Unmarshal(wire, p); err != nil {
		return nil, err
	}
	return encoding.Marshal(p)
}

// decodePublic reads a message from its JSON.
func decodePublic(text []byte, m proto.Message) error {
	p := publicForm(m)
	if err := protojson.Unmarshal(text, p); err != nil {
		return err
	}
	wire, err := proto.Marshal(p)
	if err != nil {
		return err
	}
	return proto.Unmarshal(wire, m)
}

// publicForm returns an empty message with the public names of another one's fields.
func publicForm(m proto.Message) *dynamicpb.Message {
	return dynamicpb.NewMessage(publicOf(m.ProtoReflect().Descriptor()))
}

// publicOf returns the descriptor with the public names.
func publicOf(m protoreflect.MessageDescriptor) protoreflect.MessageDescriptor {
	d, err := publicFiles().FindDescriptorByName(m.FullName())
	if err != nil {
		panic(err) // it is made from the same descriptors
	}
	return d.(protoreflect.MessageDescriptor)
}

// publicFiles returns the API's descriptors with the public names.
var publicFiles = sync.OnceValue(func() *protoregistry.Files {
	all := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		p := protodesc.ToFileDescriptorProto(f)
		for i, m := range p.MessageType {
			nameFields(m, f.Messages().Get(i))
		}
		all.File = append(all.File, p)
	}
	add(api.File_server_api_api_proto)
	files, err := protodesc.NewFiles(all)
	if err != nil {
		panic(err) // the descriptors are part of the program, and a test creates all of them
	}
	return files
})

// nameFields gives the fields of a message their public names.
func nameFields(m *descriptorpb.DescriptorProto, of protoreflect.MessageDescriptor) {
	for i, field := range m.Field {
		name := publicName(of.Fields().Get(i))
		field.Name, field.JsonName = &name, nil
	}
}

// publicName returns the name of a field in JSON.
func publicName(f protoreflect.FieldDescriptor) string {
	if f.JSONName() != jsonName(string(f.Name())) {
		return f.JSONName()
	}
	return string(f.Name())
}

// publicPath returns the path of a field with the public names. It keeps the rest of the path from the first
// unknown name on.
func publicPath(m protoreflect.MessageDescriptor, path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		name, index, listed := strings.Cut(part, "[")
		f := m.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			break
		}
		if parts[i] = publicName(f); listed {
			parts[i] += "[" + index
		}
		if m = f.Message(); m == nil || f.IsMap() {
			break
		}
	}
	return strings.Join(parts, ".")
}

// jsonName returns the default json_name of a field.
func jsonName(name string) string {
	var out []byte
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '_':
		case i > 0 && name[i-1] == '_' && 'a' <= c && c <= 'z':
			out = append(out, c-'a'+'A')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// renamedField returns the current name of a renamed field. The decoder does not report the message of the field,
// so the request itself is searched first, and then the messages in it.
func renamedField(m protoreflect.MessageDescriptor, old string) string {
	seen := map[protoreflect.FullName]bool{}
	for next := []protoreflect.MessageDescriptor{m}; len(next) > 0; next = next[1:] {
		if seen[next[0].FullName()] {
			continue
		}
		seen[next[0].FullName()] = true
		if now, is := renamed.Field(string(next[0].Name()), old); is {
			return now
		}
		for i := range next[0].Fields().Len() {
			if part := next[0].Fields().Get(i).Message(); part != nil {
				next = append(next, part)
			}
		}
	}
	return ""
}
