package httpapi

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/server/api"
)

// TestPublicNames checks that requests and answers use the json_name of a field, and that the error for an old name
// contains the new one.
func TestPublicNames(t *testing.T) {
	was := &messages.NodeStatus{Closed: "drained by ann", HeardMsAgo: 5,
		Ledger: &messages.LedgerReport{Slices: []*messages.SliceReport{{Job: "j1", RanMs: 7}}}}
	text, err := encode(was)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"unschedulable"`, `"last_seen_ms_ago"`, `"allocations"`, `"runtime_ms"`, `"job"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	is := &messages.NodeStatus{}
	if err := decode(text, is); err != nil || !proto.Equal(was, is) {
		t.Errorf("%s is read as %v (%v)", text, is, err)
	}
}

// TestRenamedField checks that the error for an old name contains the new name in the same message. Other messages
// had fields of the same name that were renamed differently.
func TestRenamedField(t *testing.T) {
	for _, c := range []struct {
		text     string
		into     proto.Message
		old, now string
	}{
		{`{"job": "j1", "array_most": 3}`, &messages.Update{}, "array_most", "use array_max_running"},
		{`{"job": "j1", "run": 2}`, &messages.Requeue{}, "run", "use attempt"},
		{`{"spec": {"array": {"most": 2}}}`, &messages.Submit{}, "most", "use max_running"},
		{`{"job": "j1", "told": 2}`, &messages.Requeue{}, "told", "see GET /v1/openapi.json for the fields of each call"},
	} {
		err := decode([]byte(c.text), c.into)
		if r := refusalOf(err); err == nil || r.Field != c.old || r.Hint != c.now {
			t.Errorf("%s: %v, %+v", c.text, err, r)
		}
	}
}

// TestPublicTable checks the table of renamed names against the descriptors, and that names in a message are
// unique.
func TestPublicTable(t *testing.T) {
	said := 0
	for _, n := range renamed.All() {
		if n.Kind != renamed.HTTP {
			continue
		}
		said++
		d, err := publicFiles().FindDescriptorByName(messages.File_messages_client_proto.Package().Append(protoName(n.In)))
		if err != nil {
			t.Errorf("%s: %v", n.In, err)
			continue
		}
		if fields := publicFields(d); !fields[n.New] || fields[n.Old] {
			t.Errorf("%s: %s, and not %s, should be among %v", n.In, n.New, n.Old, fields)
		}
	}
	if said < 40 {
		t.Errorf("%d names", said)
	}
}

func protoName(name string) protoreflect.Name { return protoreflect.Name(name) }

func publicFields(d protoreflect.Descriptor) map[string]bool {
	all := map[string]bool{}
	fields := d.(protoreflect.MessageDescriptor).Fields()
	for i := range fields.Len() {
		all[string(fields.Get(i).Name())] = true
	}
	return all
}

// TestRefusedFields checks that an error names a field as the caller wrote it, and keeps names that are not fields
// of the request.
func TestRefusedFields(t *testing.T) {
	field := ""
	s := newRig(t, &service{submit: func(context.Context, *messages.Submit) (*messages.SubmitReply, error) {
		return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_INVALID, Field: field, Text: "is bad"})
	}})
	for from, to := range map[string]string{
		"spec.array.most":       "spec.array.max_running",
		"spec.mounts[3].source": "spec.mounts[3].source",
		"spec.none":             "spec.none",
		"spec.labels[a.b].most": "spec.labels[a.b].most",
		"request_id":            "request_id",
		"Authorization":         "Authorization",
		"":                      "",
	} {
		field = from
		if _, _, text := s.send("POST", "/v1/Submit", "{}"); fault(text).Field != to {
			t.Errorf("%q is named in %s", from, text)
		}
	}
}
