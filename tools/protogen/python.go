package main

// This file writes the types of the Python client for the API's messages and calls, with the comments of the .proto
// files.

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// pythonFile is generated. The rest of the client is written by hand.
const pythonFile = "clients/python/synapse_client/api.py"

const pythonHeader = `"""The API's messages and calls, written by tools/protogen from the .proto files: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Iterable, List, Optional

from .codec import Answers, Message, Transport, many, one, plain

`

// pythonWords lists the names that a Python field cannot have.
var pythonWords = []string{"from", "is", "in", "None", "class", "def", "for", "with", "not", "and", "or", "pass", "as"}

// python returns the module.
func python(s protoreflect.ServiceDescriptor) string {
	var out strings.Builder
	out.WriteString(pythonHeader)
	all := spoken(s)
	for _, d := range all {
		if e, ok := d.(protoreflect.EnumDescriptor); ok {
			pythonEnum(&out, e)
		}
	}
	for _, d := range all {
		if m, ok := d.(protoreflect.MessageDescriptor); ok {
			pythonClass(&out, m)
		}
	}
	pythonCalls(&out, s)
	return out.String()
}

// pythonEnum writes an enum without the common prefix of its values.
func pythonEnum(out *strings.Builder, e protoreflect.EnumDescriptor) {
	fmt.Fprintf(out, "\nclass %s(str, Enum):\n%s", e.Name(), doc(e, "    "))
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		fmt.Fprintf(out, "    %s = %q%s\n", pythonValue(v), v.Name(), beside(v))
	}
	out.WriteString("\n")
}

// pythonValue returns the Python name of a value.
func pythonValue(v protoreflect.EnumValueDescriptor) string {
	first := v.Parent().(protoreflect.EnumDescriptor).Values().Get(0)
	return strings.TrimPrefix(string(v.Name()), strings.TrimSuffix(string(first.Name()), "UNSPECIFIED"))
}

func pythonClass(out *strings.Builder, m protoreflect.MessageDescriptor) {
	fmt.Fprintf(out, "\n@dataclass\nclass %s(Message):\n%s", m.Name(), doc(m, "    "))
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name, kind := publicName(f), pythonKind(f)
		typed, made := pythonType(f), fmt.Sprintf("plain(%q)", kind)
		switch {
		case f.IsList():
			typed, made = "List["+typed+"]", fmt.Sprintf("many(%q)", kind)
		case f.Message() != nil:
			typed, made = "Optional["+typed+"]", fmt.Sprintf("one(%q)", kind)
		case f.HasPresence():
			typed, made = "Optional["+typed+"]", fmt.Sprintf("one(%q)", kind)
		case f.Enum() != nil:
			made = fmt.Sprintf("plain(%q, %s)", kind, kind+"."+pythonValue(f.Enum().Values().Get(0)))
		}
		if slices.Contains(pythonWords, name) {
			made = strings.TrimSuffix(made, ")") + fmt.Sprintf(", name=%q)", name)
			name += "_"
		}
		fmt.Fprintf(out, "    %s: %s = %s%s\n", name, typed, made, beside(f))
	}
	if m.Fields().Len() == 0 && doc(m, "") == "" {
		out.WriteString("    pass\n")
	}
	out.WriteString("\n")
}

// pythonKind returns the encoding of a field's value, as a word of codec.py.
func pythonKind(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return "long"
	case protoreflect.BytesKind:
		return "bytes"
	}
	return pythonType(f)
}

func pythonType(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return string(f.Message().Name())
	case protoreflect.EnumKind:
		return string(f.Enum().Name())
	case protoreflect.BoolKind:
		return "bool"
	case protoreflect.StringKind:
		return "str"
	case protoreflect.BytesKind:
		return "bytes"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "float"
	}
	return "int"
}

// pythonCalls writes a method for each call.
func pythonCalls(out *strings.Builder, s protoreflect.ServiceDescriptor) {
	out.WriteString("\nclass Calls:\n    \"\"\"Each call of the API as it is; Client has what is made of them.\"\"\"\n\n" +
		"    def __init__(self, transport: Transport) -> None:\n        self._transport = transport\n")
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		how, asked, answered := "call", string(m.Input().Name()), string(m.Output().Name())
		typed := answered
		switch {
		case m.IsStreamingClient():
			how, asked, typed = "converse", "Iterable["+asked+"]", "Answers["+answered+"]"
		case m.IsStreamingServer():
			how, typed = "stream", "Answers["+answered+"]"
		}
		fmt.Fprintf(out, "\n    def %s(self, request: %s) -> %s:\n%s        return self._transport.%s(%q, request, %s)\n",
			snake(string(m.Name())), asked, typed, doc(m, "        "), how, m.Name(), answered)
	}
}

// snake returns a call's name in Python's form.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 && name[i-1] >= 'a' {
				out.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// doc returns a comment as a docstring.
func doc(d protoreflect.Descriptor, indent string) string {
	text := words(d)
	if text == "" {
		return ""
	}
	return indent + `"""` + text + "\"\"\"\n"
}

// beside returns a comment for the end of a line.
func beside(d protoreflect.Descriptor) string {
	if text := words(d); text != "" {
		return "  # " + text
	}
	return ""
}
