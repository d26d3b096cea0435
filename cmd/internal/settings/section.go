package settings

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file owns sections: parts of the file with keys that no flag has. A section refuses what it does not understand,
// with line and column: a key that is silently ignored is a setting that its owner relies on.

// Section is one such part. A file may lack it.
type Section struct {
	Name string
	Keys []Key
	// Entry, if set, makes the keys of one entry of a section whose entries are named by whoever writes the file, or says
	// why that is no name; Entries are the names so far, in the order of the file.
	Entry   func(name string) ([]Key, error)
	Entries func() []string
	// Check, if set, checks for each present key, once all have been read, that it fits the others. A key of a mapping is
	// checked under the mapping's name.
	Check func(name string) error
}

// Key is one key of a section: a plain value, or a mapping of further keys.
type Key struct {
	Name string
	Keys []Key                   // of a mapping
	Set  func(text string) error // of a plain value: takes it, or says what it must be
	List func([]string) error    // of a list of plain values, in place of Set
	Get  func() string           // of a plain value: what is in force
}

// maxProblems bounds the reported problems: after the tenth, most are the same mistake.
const maxProblems = 10

// problems lists what is wrong with a file, one line each, in its order, and notes what was read where.
type problems struct {
	file    string
	program string // whose file it is
	from    Origins
	lines   []error
}

// at is a place in the file.
func (p *problems) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.file, n.Line) }

func (p *problems) say(n *yaml.Node, format string, args ...any) {
	if len(p.lines) < maxProblems {
		p.lines = append(p.lines, fmt.Errorf("%s:%d:%d: %s", p.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
}

// section takes a section's values, if nothing is wrong with any of them.
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

// entries reads a section whose entries are named in the file.
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

// value reads a text as it was written, whatever YAML takes it for.
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

// list reads texts as they were written. One alone may stand without brackets.
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

// ListText is a list as a file has it.
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

// CheckEntry refuses what is no name of an entry.
func CheckEntry(name string) error {
	if name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errors.New("must have lower-case letters, digits and dashes, at most 63")
	}
	return nil
}
