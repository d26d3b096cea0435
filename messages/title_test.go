package messages_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/published"
)

func titled(given string) *messages.JobSpec {
	s := &messages.JobSpec{
		Image: "/i", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, Each: &messages.Resources{MilliCpu: 1000},
	}
	s.Call(given)
	return s
}

// TestTitles checks the valid names of jobs, and the derived name of each.
func TestTitles(t *testing.T) {
	long := strings.Repeat("A", messages.MaxTitleBytes)
	for given, name := range map[string]string{
		"train": "train", "TrainB": "trainb", "LLaMA_7B.v2": "llama-7b-v2", "X_5": "x-5", "_a_": "a", "A-b": "a-b",
		"a.b": "a-b", "-a-": "-a-", long: strings.Repeat("a", messages.MaxNameBytes),
	} {
		s := titled(given)
		if s.GetName() != name || s.Called() != given || (s.GetTitle() == "") != (given == name) {
			t.Errorf("%q is named %q and called %q", given, s.GetName(), s.Called())
		}
		if err := s.ValidateNew(); err != nil {
			t.Errorf("%q: %s", given, err)
		}
	}
	for _, given := range []string{"", "a b", "a/b", "X[3]", "a\n", "é", "..", "_", long + "A", "a:b", "a%"} {
		if err := titled(given).ValidateNew(); err == nil || messages.Titled(given) {
			t.Errorf("%q is taken", given)
		}
	}
	for _, s := range []*messages.JobSpec{
		{Name: "train", Title: "Other"}, {Name: "train", Title: "a b"}, {Name: "train", Title: "Train\n"},
	} {
		s.Image, s.Gang, s.Each = "/i", &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}, &messages.Resources{MilliCpu: 1}
		if s.Validate() != nil || s.ValidateNew() == nil {
			t.Errorf("%v is not refused, or not only when it is new", s)
		}
	}
}

// TestTitleOverVersions checks that the previous version ignores the field title, and keeps it in records that it
// writes.
func TestTitleOverVersions(t *testing.T) {
	record := &messages.JobRecord{Id: "j1", Spec: titled("TrainB")}
	old := proto.Clone(record).(*messages.JobRecord)
	if !published.Last().Strip(old) || old.GetSpec().Called() != "trainb" || old.GetSpec().ValidateNew() != nil {
		t.Errorf("the version before sees %v", old)
	}
	files := &protoregistry.Files{}
	withoutTitle(t, files, record.ProtoReflect().Descriptor().ParentFile())
	found, err := files.FindDescriptorByName("synapse.v1.JobRecord")
	if err != nil {
		t.Fatal(err)
	}
	// As a program of that version decodes it.
	earlier := dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))
	if err := proto.Unmarshal(messages.Bytes(record), earlier); err != nil {
		t.Fatal(err)
	}
	earlier.Set(earlier.Descriptor().Fields().ByName("runs"), protoreflect.ValueOfInt32(3))
	data, err := proto.Marshal(earlier)
	if err != nil {
		t.Fatal(err)
	}
	again := &messages.JobRecord{}
	if err := proto.Unmarshal(data, again); err != nil || again.GetRuns() != 3 || again.GetSpec().Called() != "TrainB" {
		t.Errorf("after a rollback it is %v (%v)", again, err)
	}
}

// withoutTitle registers a file and its imports in the form without the field title.
func withoutTitle(t *testing.T, files *protoregistry.Files, file protoreflect.FileDescriptor) {
	t.Helper()
	if _, err := files.FindFileByPath(file.Path()); err == nil {
		return
	}
	for i := range file.Imports().Len() {
		withoutTitle(t, files, file.Imports().Get(i).FileDescriptor)
	}
	text := protodesc.ToFileDescriptorProto(file)
	for _, m := range text.GetMessageType() {
		if m.GetName() == "JobSpec" {
			m.Field = slices.DeleteFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool {
				return f.GetName() == "title"
			})
		}
	}
	made, err := protodesc.NewFile(text, files)
	if err == nil {
		err = files.RegisterFile(made)
	}
	if err != nil {
		t.Fatal(err)
	}
}
