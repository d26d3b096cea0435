// Package renamed has the user-visible names that changed, each with the name that replaced it. Errors name the new
// one, a test refuses the old ones, and the migration page is generated from the same table.
package renamed

import (
	"slices"
	"strings"
)

// This file owns how the table is read.

// Kind says which sort of name was renamed: a flag, a key, a metric.
type Kind string

// The kinds.
const (
	Flag   Kind = "flag"
	Env    Kind = "environment variable"
	YAML   Kind = "YAML key"
	Value  Kind = "YAML or JSON value"
	Column Kind = "table column"
	Label  Kind = "describe label"
	JSON   Kind = "JSON key"
	CSV    Kind = "CSV column"
	HTTP   Kind = "HTTP API name"
	Metric Kind = "metric"
	Series Kind = "metric label"
	Alert  Kind = "alert"
)

// Kinds lists all kinds in the order of the migration page.
var Kinds = []Kind{Flag, Env, YAML, Value, Column, Label, JSON, CSV, HTTP, Metric, Series, Alert}

// Name is one name that changed. In says where it is used: in a command, a file, an output, a message or a metric.
type Name struct {
	Kind     Kind
	In       string
	Old, New string
}

// All returns the whole table.
func All() []Name {
	var all []Name
	for _, part := range [][]Name{flags, keys, shown, objects, calls, metrics, series} {
		all = append(all, part...)
	}
	return all
}

// Settings returns the flags, variables and keys that changed. The programs refuse them, and need no others.
func Settings() []Name { return slices.Concat(flags, keys) }

// Field returns the new name of a message's field in the HTTP API.
func Field(message, old string) (string, bool) { return find(calls, HTTP, message, old) }

// Find returns the new name of an old setting.
func Find(kind Kind, in, old string) (string, bool) { return find(Settings(), kind, in, old) }

func find(among []Name, kind Kind, in, old string) (string, bool) {
	for _, n := range among {
		if n.Kind == kind && n.In == in && n.Old == old {
			return n.New, true
		}
	}
	return "", false
}

// Key returns the new name of an old key of a file, without the keys above it. A path has dots, and brackets with the
// index of a list's item.
func Key(file, path string) (string, bool) {
	for _, n := range keys {
		if n.Kind == YAML && n.In == file && fits(n.Old, bare(path)) {
			return n.New[strings.LastIndex(n.New, ".")+1:], true
		}
	}
	return "", false
}

// fits reports whether a path is meant by one in which * is any name.
func fits(pattern, path string) bool {
	wanted, parts := strings.Split(pattern, "."), strings.Split(path, ".")
	return slices.EqualFunc(wanted, parts, func(w, p string) bool { return w == "*" || w == p })
}

// FileOf returns the name under which the table has the settings file of a program.
func FileOf(program string) string {
	if program == nodeProgram {
		return NodeFile
	}
	return SchedulerFile
}

// bare removes the indexes from a path.
func bare(path string) string {
	var out strings.Builder
	for path != "" {
		before, rest, found := strings.Cut(path, "[")
		out.WriteString(before)
		if !found {
			break
		}
		_, path, _ = strings.Cut(rest, "]")
	}
	return out.String()
}

// SeriesWord returns the present word for a metric's label value, or the word itself.
func SeriesWord(family, word string) string {
	for _, n := range series {
		if n.Kind == Series && n.In == family && n.Old == word {
			return n.New
		}
	}
	return word
}

// Word returns the present word for a value in outputs of the CLI, or the word itself. The stored word stays.
func Word(of, word string) string {
	for _, n := range shown {
		if n.Kind == Value && n.In == of && n.Old == word {
			return n.New
		}
	}
	return word
}
