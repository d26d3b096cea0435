package main

// This file writes the OpenAPI document of the client API, as server/httpapi serves it. The descriptions are the
// comments of the .proto files.

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// clientService is the service that the document describes. Without it, no document is written.
	clientService = "synapse.v1.Synapse"
	documentFile  = "server/httpapi/openapi.json"

	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

// node is one JSON object of the document.
type node map[string]any

// client returns the described service, or nil if the files have none.
func client(files linker.Files) protoreflect.ServiceDescriptor {
	for _, file := range files {
		for i := range file.Services().Len() {
			if s := file.Services().Get(i); s.FullName() == clientService {
				return s
			}
		}
	}
	return nil
}

// openAPI returns the document.
func openAPI(s protoreflect.ServiceDescriptor) (string, error) {
	paths := node{}
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		paths["/v1/"+string(m.Name())] = node{"post": operation(m)}
	}
	schemas := node{"Error": errorSchema(s)}
	for _, d := range spoken(s) {
		switch d := d.(type) {
		case protoreflect.MessageDescriptor:
			schemas[string(d.Name())] = object(d)
		case protoreflect.EnumDescriptor:
			schemas[string(d.Name())] = enum(d)
		}
	}
	text, err := json.MarshalIndent(node{
		"openapi": "3.0.3",
		"info": node{"title": "Synapse", "version": "1", "description": "The client API over HTTP and JSON. " +
			"Each call is a POST with the request as its body. In answers, 64-bit numbers are strings, and fields without a " +
			"value are omitted. Streams are JSON lines; clients ignore empty lines. See docs/jobs/http.md."},
		"paths":    paths,
		"security": []node{{"token": []string{}}, {}},
		"components": node{"schemas": schemas, "securitySchemes": node{"token": node{
			"type": "http", "scheme": "bearer", "description": "A login token. It is not needed with a client certificate " +
				"or over the Unix socket of the scheduler."}}},
	}, "", "") // the scheduler contains it, so it has lines for a diff but no indentation
	return string(text) + "\n", err
}

// operation returns the description of one call.
func operation(m protoreflect.MethodDescriptor) node {
	answer := reference(m.Output())
	kind := typeJSON
	if m.IsStreamingServer() {
		kind = typeLines
		answer = node{"type": "object", "description": "One line: a result, or an error in the last line.",
			"properties": node{"result": answer, "error": node{"$ref": "#/components/schemas/Error"}}}
	}
	asked := node{typeJSON: node{"schema": reference(m.Input())}}
	if m.IsStreamingClient() {
		asked = node{typeLines: node{"schema": reference(m.Input())}}
	}
	failed := node{"type": "object", "properties": node{"error": node{"$ref": "#/components/schemas/Error"}}}
	return described(node{
		"operationId": m.Name(),
		"requestBody": node{"required": true, "content": asked},
		"responses": node{
			"200":     node{"description": "The answer.", "content": node{kind: node{"schema": answer}}},
			"default": node{"description": "The error.", "content": node{typeJSON: node{"schema": failed}}},
		},
	}, m)
}

// spoken returns all messages and enums that a service uses, sorted by name.
func spoken(s protoreflect.ServiceDescriptor) (all []protoreflect.Descriptor) {
	seen := map[protoreflect.FullName]bool{}
	var look func(d protoreflect.Descriptor)
	look = func(d protoreflect.Descriptor) {
		if seen[d.FullName()] {
			return
		}
		seen[d.FullName()] = true
		all = append(all, d)
		m, ok := d.(protoreflect.MessageDescriptor)
		if !ok {
			return
		}
		for i := range m.Fields().Len() {
			switch f := m.Fields().Get(i); {
			case f.Message() != nil:
				look(f.Message())
			case f.Enum() != nil:
				look(f.Enum())
			}
		}
	}
	for i := range s.Methods().Len() {
		look(s.Methods().Get(i).Input())
		look(s.Methods().Get(i).Output())
	}
	sort.Slice(all, func(i, j int) bool { return all[i].FullName() < all[j].FullName() })
	return all
}

func object(m protoreflect.MessageDescriptor) node {
	properties := node{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		of := value(f)
		if f.IsList() {
			of = node{"type": "array", "items": of}
		}
		if _, refers := of["$ref"]; refers && words(f) != "" { // OpenAPI ignores all keys next to a reference
			of = node{"allOf": []node{of}}
		}
		properties[publicName(f)] = described(of, f)
	}
	return described(node{"type": "object", "properties": properties}, m)
}

// publicName returns the name of a field in the HTTP API: the one that its json_name sets, or its own.
func publicName(f protoreflect.FieldDescriptor) string {
	var usual strings.Builder
	for i, part := range strings.Split(string(f.Name()), "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		usual.WriteString(part)
	}
	if f.JSONName() != usual.String() {
		return f.JSONName()
	}
	return string(f.Name())
}

// value returns the schema of one value of a field, as in protobuf JSON.
func value(f protoreflect.FieldDescriptor) node {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return reference(f.Message())
	case protoreflect.EnumKind:
		return reference(f.Enum())
	case protoreflect.BoolKind:
		return node{"type": "boolean"}
	case protoreflect.StringKind:
		return node{"type": "string"}
	case protoreflect.BytesKind:
		return node{"type": "string", "format": "byte"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return node{"type": "integer", "format": f.Kind().String()}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return node{"type": "string", "format": f.Kind().String()}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return node{"type": "number", "format": f.Kind().String()}
	}
	panic(fmt.Sprintf("%s: no schema is defined for the kind %s", f.FullName(), f.Kind()))
}

func enum(e protoreflect.EnumDescriptor) node {
	var names, lines []string
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		names = append(names, string(v.Name()))
		if text := words(v); text != "" {
			lines = append(lines, string(v.Name())+": "+text)
		}
	}
	all := described(node{"type": "string", "enum": names}, e)
	if len(lines) > 0 {
		about, _ := all["description"].(string)
		all["description"] = strings.TrimSpace(about + "\n" + strings.Join(lines, "\n"))
	}
	return all
}

// errorSchema returns the schema of the errors of server/httpapi.
func errorSchema(s protoreflect.ServiceDescriptor) node {
	codes := node{"type": "string"}
	for _, d := range spoken(s) {
		if d.Name() == "Code" {
			codes = node{"$ref": "#/components/schemas/Code"}
		}
	}
	text := node{"type": "string"}
	return node{"type": "object", "description": "The error, its field, and a suggestion.",
		"properties": node{"code": codes, "field": text, "text": text, "hint": text}}
}

func reference(d protoreflect.Descriptor) node {
	return node{"$ref": "#/components/schemas/" + string(d.Name())}
}

// described adds the comments as the description.
func described(n node, d protoreflect.Descriptor) node {
	if text := words(d); text != "" {
		n["description"] = text
	}
	return n
}

// words returns the comments on a declaration as one paragraph.
func words(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	return strings.Join(strings.Fields(at.LeadingComments+" "+at.TrailingComments), " ")
}
