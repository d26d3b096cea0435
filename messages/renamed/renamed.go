// Package renamed has a table of the public names that changed, with their new names. Errors suggest the new name, a
// test refuses the old names, and the migration page is generated from the table.
package renamed

import (
	"slices"
	"strings"
)

// This file has the functions that read the table.

// Kind is the kind of a renamed name: a flag, a key, a metric.
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

// Name is one renamed name. In has the scope of the name: a command, file, output, message or metric.
type Name struct {
	Kind     Kind
	In       string
	Old, New string
}

// All returns the complete table.
func All() []Name {
	var all []Name
	for _, part := range [][]Name{flags, keys, shown, objects, calls, metrics, series} {
		all = append(all, part...)
	}
	return all
}

// Settings returns the renamed flags, variables and keys. The programs refuse the old ones.
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

// Key returns the new name of an old key of a file, without its parent keys. A path has dots between keys, and an index
// in brackets after a list.
func Key(file, path string) (string, bool) {
	for _, n := range keys {
		if n.Kind == YAML && n.In == file && fits(n.Old, bare(path)) {
			return n.New[strings.LastIndex(n.New, ".")+1:], true
		}
	}
	return "", false
}

// fits reports whether a path matches a pattern in which * matches one name.
func fits(pattern, path string) bool {
	wanted, parts := strings.Split(pattern, "."), strings.Split(path, ".")
	return slices.EqualFunc(wanted, parts, func(w, p string) bool { return w == "*" || w == p })
}

// FileOf returns the table's name for the settings file of a program.
func FileOf(program string) string {
	if program == nodeProgram {
		return NodeFile
	}
	return SchedulerFile
}

// bare removes the indices from a path.
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

// SeriesWord returns the current word for a metric's label value, or the word itself.
func SeriesWord(family, word string) string {
	for _, n := range series {
		if n.Kind == Series && n.In == family && n.Old == word {
			return n.New
		}
	}
	return word
}

// Word returns the current word for a value in outputs of the CLI, or the word itself. Stored data keeps the old word.
func Word(of, word string) string {
	for _, n := range shown {
		if n.Kind == Value && n.In == of && n.Old == word {
			return n.New
		}
	}
	return word
}
