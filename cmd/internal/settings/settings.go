// Package settings reads every flag of a command also from an environment variable and from a key in a
// configuration file. The command line overrides the environment, and the environment overrides the file.
package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// This file reads the settings and records their sources.

// fileFlag is the flag with the name of the file. It cannot be set in the file.
const fileFlag = "config"

// unsettable lists the flags that are not settings.
var unsettable = []string{fileFlag, "help", "version"}

// Flag adds the flag with the name of the file.
func Flag(flags *pflag.FlagSet) {
	flags.String(fileFlag, "", "YAML settings `file`; its keys are the names of these flags")
}

// Origins maps the names of settings to their sources. Settings without an entry have their defaults. The keys of a
// section are joined by dots.
type Origins map[string]string

// Apply sets each flag that the command line does not set, and the sections. The prefix forms the names of
// environment variables: SYNAPSE_NODE_ and join form SYNAPSE_NODE_JOIN.
func Apply(
	flags *pflag.FlagSet, prefix string, lookup func(string) (string, bool), sections ...Section,
) (Origins, error) {
	from := Origins{}
	flags.Visit(func(f *pflag.Flag) { from[f.Name] = "--" + f.Name })
	failed := renamedVariables(prefix, lookup)
	flags.VisitAll(func(f *pflag.Flag) {
		name := Twin(prefix, f.Name)
		text, there := lookup(name)
		if !there || from[f.Name] != "" || f.Name == "version" {
			return
		}
		from[f.Name] = name
		if err := flags.Set(f.Name, text); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s=%q in the environment: %w", name, text, err))
		}
	})
	if failed != nil {
		return from, failed
	}
	if path := flags.Lookup(fileFlag).Value.String(); path != "" {
		return from, applyFile(flags, path, sections, from, programOf(prefix))
	}
	return from, nil
}

// Twin returns the environment variable of a flag.
func Twin(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyFile applies all settings of the file, or returns all errors in it.
func applyFile(flags *pflag.FlagSet, path string, sections []Section, from Origins, program string) error {
	root, err := parse(path)
	if root == nil || err != nil {
		return err
	}
	p := &problems{file: path, from: from, program: program}
	if root.Kind != yaml.MappingNode {
		p.say(root, "must contain keys and values, such as `listen: 127.0.0.1:9000`")
		return errors.Join(p.lines...)
	}
	first := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if line := first[name.Value]; line > 0 {
			p.say(name, "%s: duplicate key: first set in line %d", name.Value, line)
			continue
		}
		first[name.Value] = name.Line
		if at := slices.IndexFunc(sections, func(s Section) bool { return s.Name == name.Value }); at >= 0 {
			p.section(sections[at], value)
			continue
		}
		p.flag(flags, sections, name, value)
	}
	return errors.Join(p.lines...)
}

// parse reads the file. It returns nil if the file is empty or contains only comments.
func parse(path string) (*yaml.Node, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var document yaml.Node
	switch err := yaml.NewDecoder(io.LimitReader(file, 1<<20)).Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(document.Content) != 1:
		return nil, fmt.Errorf("%s: must contain keys and values, such as `listen: 127.0.0.1:9000`", path)
	}
	return document.Content[0], nil
}

// flag sets a flag from its key in the file, unless it is already set.
func (p *problems) flag(flags *pflag.FlagSet, sections []Section, name, value *yaml.Node) {
	if f := flags.Lookup(name.Value); f == nil || slices.Contains(unsettable, name.Value) {
		p.say(name, "%s: unknown setting; %s", name.Value, p.meantKey(name.Value, name.Value, Names(flags, sections)))
		return
	}
	text, err := scalar(value)
	if err == nil && p.from[name.Value] != "" {
		return
	}
	if err == nil {
		p.from[name.Value] = p.at(name)
		err = flags.Set(name.Value, text)
	}
	if err != nil {
		p.say(value, "%s: %s", name.Value, err)
	}
}

// Names returns all top-level keys of a file.
func Names(flags *pflag.FlagSet, sections []Section) (all []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(unsettable, f.Name) {
			all = append(all, f.Name)
		}
	})
	for _, s := range sections {
		all = append(all, s.Name)
	}
	return all
}

// scalar returns a single value, or a list joined by commas in the notation of its flag.
func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		var parts []string
		for _, part := range n.Content {
			if part.Kind != yaml.ScalarNode {
				return "", errors.New("must be a list of plain values")
			}
			parts = append(parts, part.Value)
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("must be a plain value or a list of them")
}
