package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// This file prints the effective settings as a file with the same values, with the source of each.

// byDefault is the source of a default.
const byDefault = "default"

// Value is one effective setting. The keys of a section are joined by dots.
type Value struct{ Name, Text, From string }

// Values returns all effective settings: the flags by name, then the sections.
func Values(flags *pflag.FlagSet, sections []Section, from Origins) (all []Value) {
	add := func(name, text string) {
		at := from[name]
		if at == "" {
			at = byDefault
		}
		all = append(all, Value{name, text, at})
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(unsettable, f.Name) {
			add(f.Name, textOf(f))
		}
	})
	var walk func(path string, keys []Key)
	walk = func(path string, keys []Key) {
		for _, k := range keys {
			switch {
			case k.Keys != nil:
				walk(path+"."+k.Name, k.Keys)
			case k.List != nil:
				add(path+"."+k.Name, k.Get())
			default:
				add(path+"."+k.Name, quoted(k.Get()))
			}
		}
	}
	for _, s := range sections {
		walk(s.Name, s.Keys)
		if s.Entry == nil {
			continue
		}
		for _, name := range s.Entries() {
			if keys, err := s.Entry(name); err == nil {
				walk(s.Name+"."+name, keys)
			}
		}
	}
	return all
}

// textOf returns the value of a flag in the notation of a file.
func textOf(f *pflag.Flag) string {
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		if f.Value.Type() == "string" {
			return quoted(f.Value.String())
		}
		return f.Value.String()
	}
	parts := list.GetSlice()
	for i := range parts {
		parts[i] = quoted(parts[i])
		if strings.ContainsAny(parts[i], "[]{},: ") && parts[i][0] != '"' && parts[i][0] != '\'' {
			parts[i] = fmt.Sprintf("%q", parts[i])
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// quoted returns a text in quotes if YAML would otherwise read something else.
func quoted(text string) string {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err == nil && len(n.Content) == 1 &&
		n.Content[0].Kind == yaml.ScalarNode && n.Content[0].Value == text && n.Content[0].Tag != "!!null" &&
		n.Content[0].LineComment == "" {
		return text
	}
	return fmt.Sprintf("%q", text)
}

// Show returns a file with these settings, each line with its source.
func Show(all []Value) string {
	wide := 0
	lines := make([]string, len(all))
	var out strings.Builder
	var open []string // mappings that contain the last line
	heads := make([]string, len(all))
	for i, v := range all {
		path := strings.Split(v.Name, ".")
		depth := len(path) - 1
		for d := range depth {
			if d >= len(open) || open[d] != path[d] {
				heads[i] += strings.Repeat("  ", d) + path[d] + ":\n"
				open = append(open[:d:d], path[d])
			}
		}
		open = open[:depth]
		lines[i] = strings.Repeat("  ", depth) + path[depth] + ": " + v.Text
		wide = max(wide, min(len(lines[i]), 60))
	}
	for i, v := range all {
		fmt.Fprintf(&out, "%s%-*s  # %s\n", heads[i], wide, lines[i], v.From)
	}
	return out.String()
}

// Changed returns the settings of now that differ from before.
func Changed(before, now []Value) (changed []Value) {
	for i, v := range now {
		if i >= len(before) || before[i].Name != v.Name || before[i].Text != v.Text {
			changed = append(changed, v)
		}
	}
	return changed
}
