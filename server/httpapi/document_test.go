package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file checks the OpenAPI description against the descriptors, and fuzzes requests.

// schema holds the parts of a schema that are compared with the descriptors.
type schema struct {
	Ref        string `json:"$ref"`
	AllOf      []schema
	Type       string
	Format     string
	Enum       []string
	Items      *schema
	Properties map[string]schema
}

// says returns a short text for a schema, including what it refers to.
func (s schema) says() string {
	switch {
	case len(s.AllOf) == 1:
		return s.AllOf[0].says()
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/components/schemas/")
	case s.Items != nil:
		return s.Type + " of " + s.Items.says()
	}
	return strings.TrimSpace(s.Type + " " + s.Format)
}

type content map[string]struct{ Schema schema }

// described holds the OpenAPI document.
type described struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		RequestBody struct{ Content content }
		Responses   map[string]struct{ Content content }
	}
	Components struct{ Schemas map[string]schema }
}

// TestDocument checks that the served description has exactly the calls and fields of the descriptors, in
// protojson's form. The test computes the expected values independently of the generator.
func TestDocument(t *testing.T) {
	var d described
	if err := json.Unmarshal(document, &d); err != nil || !strings.HasPrefix(d.OpenAPI, "3.") {
		t.Fatalf("version %q, %v", d.OpenAPI, err)
	}
	spoken := map[protoreflect.FullName]protoreflect.Descriptor{}
	for name, c := range calls() {
		post, ok := d.Paths[Prefix+name]["post"]
		kinds := [2]string{typeJSON, typeJSON}
		if c.asks {
			kinds[0] = typeLines
		}
		answer := post.Responses["200"].Content
		got := answer[kinds[1]].Schema
		if c.answers {
			kinds[1] = typeLines
			got = answer[kinds[1]].Schema.Properties["result"]
		}
		in, out := c.in.Descriptor(), c.out.Descriptor()
		if !ok || post.OperationID != name || post.RequestBody.Content[kinds[0]].Schema.says() != string(in.Name()) ||
			got.says() != string(out.Name()) || len(post.Responses) != 2 {
			t.Errorf("%s is described as %+v", name, post)
		}
		gather(spoken, in)
		gather(spoken, out)
	}
	if len(d.Paths) != len(calls()) || len(d.Components.Schemas) != len(spoken)+1 {
		t.Errorf("it has %d calls and %d schemas; there are %d and %d, and the error", len(d.Paths),
			len(d.Components.Schemas), len(calls()), len(spoken))
	}
	for _, of := range spoken { //order: each is checked separately
		if got, want := fields(d.Components.Schemas[string(of.Name())]), fieldsOf(of); !slices.Equal(got, want) {
			t.Errorf("%s is described with\n  %q, and has\n  %q", of.Name(), got, want)
		}
	}
	if got := fields(d.Components.Schemas["Error"]); !slices.Equal(got, []string{
		"code Code", "field string", "hint string", "text string"}) {
		t.Errorf("an error has %q", got)
	}
}

func gather(all map[protoreflect.FullName]protoreflect.Descriptor, d protoreflect.Descriptor) {
	if all[d.FullName()] != nil {
		return
	}
	all[d.FullName()] = d
	if m, ok := d.(protoreflect.MessageDescriptor); ok {
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i); f.Message() != nil {
				gather(all, f.Message())
			} else if f.Enum() != nil {
				gather(all, f.Enum())
			}
		}
	}
}

// fields returns the fields of a schema.
func fields(s schema) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, name+" "+s.Properties[name].says())
	}
	return append(all, s.Enum...)
}

// fieldsOf returns the fields that a schema must have. protojson defines the form of their values.
func fieldsOf(d protoreflect.Descriptor) (all []string) {
	if e, ok := d.(protoreflect.EnumDescriptor); ok {
		for i := range e.Values().Len() {
			all = append(all, string(e.Values().Get(i).Name()))
		}
		return all
	}
	m := d.(protoreflect.MessageDescriptor)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		word := map[protoreflect.Kind]string{protoreflect.BytesKind: "string byte",
			protoreflect.BoolKind: "boolean"}[f.Kind()]
		switch text := inJSON(m, f); {
		case f.Message() != nil:
			word = string(f.Message().Name())
		case f.Enum() != nil:
			word = string(f.Enum().Name())
		case word == "" && strings.HasPrefix(text, `"`):
			word = strings.TrimSpace("string " + strings.TrimPrefix(f.Kind().String(), "string"))
		case word == "":
			word = "integer " + f.Kind().String()
		}
		if f.IsList() {
			word = "array of " + word
		}
		all = append(all, publicOf(m).Fields().ByNumber(f.Number()).TextName()+" "+word)
	}
	slices.Sort(all)
	return all
}

// inJSON returns the form of a field's value in JSON.
func inJSON(m protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor) string {
	if f.Message() != nil || f.Enum() != nil {
		return ""
	}
	one := typeOf(m).New()
	if f.IsList() {
		list := one.Mutable(f).List()
		list.Append(list.NewElement())
	} else if f.HasPresence() {
		one.Set(f, f.Default())
	}
	text, err := protojson.MarshalOptions{EmitUnpopulated: true, UseProtoNames: true}.Marshal(one.Interface())
	var all map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &all) != nil {
		panic(err)
	}
	return strings.TrimPrefix(string(all[string(f.Name())]), "[")
}

// FuzzRequest checks that any request is a message or is refused with a reason, and that a message's own JSON reads
// as the same message.
func FuzzRequest(f *testing.F) {
	f.Add("Submit", `{"spec":{"name":"a","gang":{"replicas_min":2}}}`)
	f.Add("Exec", `{"stdin":"aGk=","rows":3}`)
	f.Add("Watch", `{"ids":["a"],"after":"18446744073709551615"}`)
	f.Add("Hold", `{"job":"\ud800"}`)
	all := calls()
	f.Fuzz(func(t *testing.T, name, text string) {
		c := all[name]
		if c == nil {
			return
		}
		q := c.in.New().Interface()
		if err := decode([]byte(text), q); err != nil {
			if r := refusalOf(err); r.status != 400 || r.Text == "" {
				t.Errorf("%q is refused with %d %q", text, r.status, r.Text)
			}
			return
		}
		again, err := encode(q)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		other := c.in.New().Interface()
		if err := decode(again, other); err != nil || !proto.Equal(q, other) {
			t.Errorf("%q is %s, which is %v (%v)", text, again, other, err)
		}
	})
}
