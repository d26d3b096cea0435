package settings

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file parses sections: parts of the file with keys that are not flags. A section refuses unknown keys with
// line and column, because an operator relies on every setting in the file.

// Section describes an optional part of the file.
type Section struct {
	Name string
	Keys []Key
	// Entry is set for a section whose entries have free names. It returns the keys of a new entry, or the
	// reason why the name is invalid. Entries returns the names so far, in the order of the file.
	Entry   func(name string) ([]Key, error)
	Entries func() []string
	// Check, if set, checks each present key against the others after all keys have been read. A key of a
	// mapping is checked under the name of the mapping.
	Check func(name string) error
}

// Key describes one key of a section: a single value, a list, or a mapping.
type Key struct {
	Name string
	Keys []Key                   // keys of a mapping
	Set  func(text string) error // stores a value, or returns what it must be
	List func([]string) error    // stores a list; replaces Set
	Get  func() string           // returns the effective value
}

// maxProblems limits the number of reported errors. After ten errors, most further ones have the same cause.
const maxProblems = 10

// problems collects the errors of a file, one line each, in the order of the file. It also records where each value
// was read.
type problems struct {
	file    string
	program string // program of the file
	from    Origins
	lines   []error
}

// at returns a position in the file.
func (p *problems) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.file, n.Line) }

func (p *problems) say(n *yaml.Node, format string, args ...any) {
	if len(p.lines) < maxProblems {
		p.lines = append(p.lines, fmt.Errorf("%s:%d:%d: %s", p.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
}

// section stores the values of a section if all of them are valid.
func (p *problems) section(s Section, n *yaml.Node) {
	before := len(p.lines)
	if s.Entry != nil {
		p.entries(s, n)
	} else {
		p.mapping(n, s.Name, s.Keys)
	}
	for i := 0; s.Check != nil && len(p.lines) == before && i+1 < len(n.Content); i += 2 {
		if err := s.Check(n.Content[i].Value); err != nil {
			p.say(n.Content[i], "%s.%s: %s", s.Name, n.Content[i].Value, err)
		}
	}
}

// entries reads a section whose entries have free names.
func (p *problems) entries(s Section, n *yaml.Node) {
	if n.Kind != yaml.MappingNode || n.Anchor != "" {
		p.say(n, "%s: must be a mapping of names", s.Name)
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if line := first[name.Value]; line > 0 {
			p.say(name, "%s.%s: duplicate key: first set in line %d", s.Name, name.Value, line)
			continue
		}
		first[name.Value] = name.Line
		keys, err := s.Entry(name.Value)
		if err != nil {
			p.say(name, "%s.%s: %s", s.Name, name.Value, err)
			continue
		}
		p.mapping(value, s.Name+"."+name.Value, keys)
	}
}

func (p *problems) mapping(n *yaml.Node, path string, keys []Key) {
	if n.Kind != yaml.MappingNode || n.Anchor != "" {
		p.say(n, "%s: must be a mapping of keys: %s", path, strings.Join(namesOf(keys), ", "))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := path + "." + name.Value
		k := find(keys, name.Value)
		switch {
		case name.Kind != yaml.ScalarNode:
			p.say(name, "%s: keys must be strings", path)
		case first[name.Value] > 0:
			p.say(name, "%s: duplicate key: first set in line %d", at, first[name.Value])
		case k == nil:
			p.say(name, "%s: unknown setting; %s", at, p.meantKey(at, name.Value, namesOf(keys)))
		case k.Keys != nil:
			p.mapping(value, at, k.Keys)
		default:
			p.value(value, at, k)
		}
		first[name.Value] = name.Line
	}
}

// value reads a text as it was written, regardless of its YAML type.
func (p *problems) value(n *yaml.Node, path string, k *Key) {
	switch {
	case k.List != nil:
		p.list(n, path, k)
	case n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		p.say(n, "%s: must be a plain value", path)
	case n.Tag == "!!null":
		p.say(n, "%s: is empty; give a value, or omit the key", path)
	default:
		p.from[path] = p.at(n)
		if err := k.Set(n.Value); err != nil {
			p.say(n, "%s: %q %s", path, n.Value, err)
		}
	}
}

// list reads texts as they were written. A single text needs no brackets.
func (p *problems) list(n *yaml.Node, path string, k *Key) {
	parts := n.Content
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		parts = []*yaml.Node{n}
	}
	var texts []string
	for _, part := range parts {
		if part.Kind != yaml.ScalarNode || part.Anchor != "" || n.Kind == yaml.MappingNode {
			p.say(n, "%s: must be a list of plain values", path)
			return
		}
		texts = append(texts, part.Value)
	}
	if len(texts) == 0 {
		p.say(n, "%s: is empty; give a value, or omit the key", path)
		return
	}
	p.from[path] = p.at(n)
	if err := k.List(texts); err != nil {
		p.say(n, "%s: %s", path, err)
	}
}

// ListText formats a list for a file.
func ListText(texts []string) string {
	parts := make([]string, len(texts))
	for i, text := range texts {
		parts[i] = quoted(text)
		if strings.ContainsAny(parts[i], "[]{},: ") && parts[i][0] != '"' {
			parts[i] = fmt.Sprintf("%q", text)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func find(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func namesOf(keys []Key) []string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// CheckEntry refuses an invalid name of an entry.
func CheckEntry(name string) error {
	if name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errors.New("must have lower-case letters, digits and dashes, at most 63")
	}
	return nil
}
