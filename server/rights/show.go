package rights

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file removes hidden fields from an answer.

// bar defines who sees a field.
type bar int

const (
	undecided bar = iota // no role
	open                 // all roles that may make the call
	private              // roles with ReadPrivate on the job
	ids                  // roles with ReadIDs
	never                // no role
)

// bars holds the bars of all fields, by message.
var bars = sync.OnceValue(func() map[protoreflect.FullName]map[protoreflect.Name]bar {
	all := map[protoreflect.FullName]map[protoreflect.Name]bar{}
	for _, s := range shown {
		of := map[protoreflect.Name]bar{}
		for words, b := range map[string]bar{s.open: open, s.private: private, s.ids: ids} { //order: each field has one
			for name := range strings.FieldsSeq(words) {
				of[protoreflect.Name(name)] = b
			}
		}
		all[protoreflect.FullName(scope+"."+s.message)] = of
	}
	for _, s := range unshown {
		all[protoreflect.FullName(scope+"."+s.message)][protoreflect.Name(s.field)] = never
	}
	return all
})

// Answer is the visible part of an answer.
type Answer struct {
	proto.Message
	// Foreign lists the other owners whose private fields the answer contains.
	Foreign []string
}

// viewer filters one answer.
type viewer struct {
	identity.Identity
	foreign []string
}

// Show returns the part of an answer that its caller may see. The result shares data with the original, which stays
// unchanged. Messages of other APIs are returned unchanged.
func Show(who identity.Identity, answer proto.Message) Answer {
	v, m := viewer{Identity: who}, answer.ProtoReflect()
	switch {
	case m.Descriptor().ParentFile().Package() != scope:
	case ReadPrivate.Of(who.Role) == Any && ReadIDs.Of(who.Role) == Any:
		v.owners(m) // nothing is hidden, so a large gang is not copied
	default:
		out, _ := v.message(m, "")
		answer = out.Interface()
	}
	return Answer{answer, v.foreign}
}

// scope is the package of the API's messages.
const scope = "synapse.v1"

// careful holds the messages that have a hidden field at any depth. recorded holds the messages with records of
// jobs, which admins see completely.
var careful = sync.OnceValue(func() map[protoreflect.FullName]bool {
	return reaching(func(m protoreflect.MessageDescriptor) bool {
		fields := bars()[m.FullName()]
		for i := range m.Fields().Len() {
			if fields[m.Fields().Get(i).Name()] != open {
				return true
			}
		}
		return false
	})
})

var recorded = sync.OnceValue(func() map[protoreflect.FullName]bool {
	record := (&messages.JobRecord{}).ProtoReflect().Descriptor().FullName()
	return reaching(func(m protoreflect.MessageDescriptor) bool { return m.FullName() == record })
})

// reaching returns all messages of the API that satisfy these, or contain such a message.
func reaching(these func(protoreflect.MessageDescriptor) bool) map[protoreflect.FullName]bool {
	found := map[protoreflect.FullName]bool{}
	for before := -1; before < len(found); {
		before = len(found)
		protoregistry.GlobalFiles.RangeFilesByPackage(scope, func(file protoreflect.FileDescriptor) bool {
			for i := range file.Messages().Len() {
				m := file.Messages().Get(i)
				is := these(m)
				for j := 0; j < m.Fields().Len() && !is; j++ {
					in := m.Fields().Get(j).Message()
					is = in != nil && found[in.FullName()]
				}
				if is {
					found[m.FullName()] = true
				}
			}
			return true
		})
	}
	return found
}

// message copies the visible part of a message. It reports whether a private field was removed.
func (v *viewer) message(m protoreflect.Message, owner string) (protoreflect.Message, bool) {
	name := m.Descriptor().FullName()
	if !careful()[name] {
		return m, false
	}
	if record, ok := m.Interface().(*messages.JobRecord); ok {
		owner = record.Whose()
	}
	out, fields, hidden := m.New(), bars()[name], false
	m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		b := fields[f.Name()]
		if !v.may(b, owner) {
			hidden = hidden || b == private
			return true
		}
		if b == private {
			v.note(owner)
		}
		hidden = v.copy(out, f, value, owner) || hidden
		return true
	})
	if status, ok := out.Interface().(*messages.JobStatus); ok {
		status.Withheld = hidden
	}
	return out, hidden
}

// copy copies a field.
func (v *viewer) copy(
	out protoreflect.Message, f protoreflect.FieldDescriptor, value protoreflect.Value, owner string,
) (hidden bool) {
	switch {
	case f.Message() == nil || !careful()[f.Message().FullName()]:
		out.Set(f, value)
	case !f.IsList():
		m, below := v.message(value.Message(), owner)
		out.Set(f, protoreflect.ValueOfMessage(m))
		return below
	default:
		to := out.Mutable(f).List()
		for i := range value.List().Len() {
			m, below := v.message(value.List().Get(i).Message(), owner)
			hidden = hidden || below
			to.Append(protoreflect.ValueOfMessage(m))
		}
	}
	return hidden
}

func (v *viewer) may(b bar, owner string) bool {
	switch b {
	case open:
		return true
	case private:
		reach := ReadPrivate.Of(v.Role)
		return reach == Any || reach == Own && Mine(v.Name, owner)
	case ids:
		return ReadIDs.Of(v.Role) == Any
	}
	return false
}

func (v *viewer) note(owner string) {
	if !Mine(v.Name, owner) && !slices.Contains(v.foreign, owner) {
		v.foreign = append(v.foreign, owner)
	}
}

// owners records the owners of all jobs in a message.
func (v *viewer) owners(m protoreflect.Message) {
	if record, ok := m.Interface().(*messages.JobRecord); ok {
		v.note(record.Whose())
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case f.Message() == nil || !recorded()[f.Message().FullName()]:
		case f.IsList():
			for i := range value.List().Len() {
				v.owners(value.List().Get(i).Message())
			}
		default:
			v.owners(value.Message())
		}
		return true
	})
}
