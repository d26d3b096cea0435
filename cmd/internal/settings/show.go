package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// This file owns how the settings that are in force are shown: as a file that sets the same, with where each came from.

// byDefault is where a setting came from that nobody set.
const byDefault = "default"

// Value is one setting in force. A section's keys are named with dots.
type Value struct{ Name, Text, From string }

// Values are all settings, as they are in force: the flags in the order of names, then the sections.
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

// textOf is a flag's value as a file has it.
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

// quoted is a text that a file's reader takes for the same, with quotes where it needs some.
func quoted(text string) string {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err == nil && len(n.Content) == 1 &&
		n.Content[0].Kind == yaml.ScalarNode && n.Content[0].Value == text && n.Content[0].Tag != "!!null" &&
		n.Content[0].LineComment == "" {
		return text
	}
	return fmt.Sprintf("%q", text)
}

// Show is a file that sets all of it, each line with where the setting came from.
func Show(all []Value) string {
	wide := 0
	lines := make([]string, len(all))
	var out strings.Builder
	var open []string // the mappings that the last line stands in
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

// Changed are the settings of now that were others before.
func Changed(before, now []Value) (changed []Value) {
	for i, v := range now {
		if i >= len(before) || before[i].Name != v.Name || before[i].Text != v.Text {
			changed = append(changed, v)
		}
	}
	return changed
}
