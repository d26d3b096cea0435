package main

// This file protects published definitions of the wire format, which must never change.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// baselineHeader opens the file. Deleting the file starts again, which a reviewer would see.
const baselineHeader = `# Every message, field, enum value and call that was published, one per line, sorted.
# Lines are only ever added, by ` + "`make proto`" + `. A line that no longer holds is a break on the wire, and is refused.
`

// guardedBaseline returns the baseline's new text, or an error that names each broken line. Without a baseline nothing
// can break, and the first one is created. -check then reports the file as missing.
func guardedBaseline(root string, files linker.Files) (string, error) {
	current := describe(files)
	text := baselineHeader + strings.Join(current, "\n") + "\n"
	old, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(baselineFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return "", fmt.Errorf("baseline: %w", err)
	}
	broken := brokenLines(string(old), current)
	if len(broken) == 0 {
		return text, nil
	}
	return "", fmt.Errorf("breaking change: published in %s, and no longer so\n  %s\n"+
		"Add under a new number or name instead, and keep the old. (Only what no release ever spoke may go: delete the file "+
		"and run `make proto` to start it over.)", baselineFile, strings.Join(broken, "\n  "))
}

// brokenLines returns the published lines that no longer hold, each with its replacement.
func brokenLines(published string, current []string) []string {
	now := map[string]string{}
	for _, line := range current {
		name, rest, _ := strings.Cut(line, " = ")
		now[name] = rest
	}
	var broken []string
	for _, line := range strings.Split(published, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " = ")
		found, there := now[name]
		switch {
		case !there:
			broken = append(broken, line+"   (removed)")
		case found != rest:
			broken = append(broken, line+"   (now "+found+")")
		}
	}
	return broken
}

// describe lists everything that the wire format depends on. A line has the form `name = what it is`, and the name is
// the key.
func describe(files linker.Files) []string {
	var lines []string
	for _, file := range files {
		lines = append(lines, describeMessages(file.Messages())...)
		lines = append(lines, describeEnums(file.Enums())...)
		lines = append(lines, describeServices(file.Services())...)
	}
	sort.Strings(lines)
	return lines
}

func describeMessages(messages protoreflect.MessageDescriptors) []string {
	var lines []string
	for i := range messages.Len() {
		message := messages.Get(i)
		if message.IsMapEntry() {
			continue // The map's own field describes its key and value.
		}
		// An empty message is published too, because its name is sent as a type name.
		lines = append(lines, fmt.Sprintf("%s = message", message.FullName()))
		fields := message.Fields()
		for j := range fields.Len() {
			lines = append(lines, describeField(fields.Get(j)))
		}
		lines = append(lines, describeMessages(message.Messages())...)
		lines = append(lines, describeEnums(message.Enums())...)
	}
	return lines
}

// describeField returns number, type and label. The label includes the oneof, because moving a field into a oneof makes
// it clear its neighbours in readers that know the oneof.
func describeField(field protoreflect.FieldDescriptor) string {
	label := "single"
	switch {
	case field.IsMap():
		label = "map"
	case field.IsList() && field.IsPacked():
		label = "repeated packed"
	case field.IsList():
		label = "repeated"
	case field.ContainingOneof() != nil && !field.ContainingOneof().IsSynthetic():
		label = "oneof " + string(field.ContainingOneof().Name())
	case field.HasOptionalKeyword():
		label = "optional"
	}
	return fmt.Sprintf("%s = %d %s %s", field.FullName(), field.Number(), typeName(field), label)
}

func typeName(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsMap():
		return fmt.Sprintf("<%s,%s>", typeName(field.MapKey()), typeName(field.MapValue()))
	case field.Message() != nil:
		return string(field.Message().FullName())
	case field.Enum() != nil:
		return string(field.Enum().FullName())
	}
	return field.Kind().String()
}

func describeEnums(enums protoreflect.EnumDescriptors) []string {
	var lines []string
	for i := range enums.Len() {
		enum := enums.Get(i)
		lines = append(lines, fmt.Sprintf("%s = enum", enum.FullName()))
		values := enum.Values()
		for j := range values.Len() {
			// The full name of a value in protobuf omits its enum, which readers of the list need.
			value := values.Get(j)
			lines = append(lines, fmt.Sprintf("%s.%s = %d", enum.FullName(), value.Name(), value.Number()))
		}
	}
	return lines
}

func describeServices(services protoreflect.ServiceDescriptors) []string {
	var lines []string
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			method := methods.Get(j)
			lines = append(lines, fmt.Sprintf("%s = call %s%s -> %s%s", method.FullName(),
				streamWord(method.IsStreamingClient()), method.Input().FullName(),
				streamWord(method.IsStreamingServer()), method.Output().FullName()))
		}
	}
	return lines
}

func streamWord(streams bool) string {
	if streams {
		return "stream "
	}
	return ""
}
