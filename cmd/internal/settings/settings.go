// Package settings gives every flag of a command its twin in the environment
// and its key in a configuration file. The command line wins over the environment, and the environment over the file.
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

// fileFlag names the file; the file cannot name itself.
const fileFlag = "config"

// Flag adds the flag that names the file.
func Flag(flags *pflag.FlagSet) {
	flags.String(fileFlag, "", "a YAML `file` with the names of these flags as keys")
}

// Apply fills in each flag that the command line does not set, and the sections. The prefix makes the names in the
// environment: SYNAPSE_NODE_ and join make SYNAPSE_NODE_JOIN.
func Apply(flags *pflag.FlagSet, prefix string, lookup func(string) (string, bool), sections ...Section) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	fromEnvironment := func(f *pflag.Flag) error {
		name := Twin(prefix, f.Name)
		text, there := lookup(name)
		if !there || given[f.Name] || f.Name == "version" {
			return nil
		}
		given[f.Name] = true
		if err := flags.Set(f.Name, text); err != nil {
			return fmt.Errorf("%s=%q in the environment: %w", name, text, err)
		}
		return nil
	}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) { failed = errors.Join(failed, fromEnvironment(f)) })
	if failed != nil {
		return failed
	}
	path := flags.Lookup(fileFlag).Value.String()
	if path == "" {
		return nil
	}
	keys, err := read(path, sections)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := applyKey(flags, given, key); err != nil {
			return fmt.Errorf("%s:%d: %w", path, key.line, err)
		}
	}
	return nil
}

// Twin is a flag's name in the environment.
func Twin(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func applyKey(flags *pflag.FlagSet, given map[string]bool, k key) error {
	if f := flags.Lookup(k.name); f == nil || k.name == fileFlag || k.name == "help" || k.name == "version" {
		return fmt.Errorf("there is no setting %q (each is named as its flag, see --help)", k.name)
	}
	if given[k.name] {
		return nil
	}
	if err := flags.Set(k.name, k.value); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	return nil
}

// key is one line of the file.
type key struct {
	name, value string
	line        int
}

// read takes a flat map of scalars beside the sections; a list of them is joined by commas, as its
// flag would be.
func read(path string, sections []Section) ([]key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var document yaml.Node
	if err := yaml.NewDecoder(io.LimitReader(file, 1<<20)).Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil // an empty file, or one of comments only
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: must be keys and values, as in `listen: 127.0.0.1:9000`", path)
	}
	var keys []key
	seen := map[string]bool{}
	entries := document.Content[0].Content
	for i := 0; i+1 < len(entries); i += 2 {
		k := key{name: entries[i].Value, line: entries[i].Line}
		if seen[k.name] {
			return nil, fmt.Errorf("%s:%d: %s is there twice", path, k.line, k.name)
		}
		seen[k.name] = true
		if at := slices.IndexFunc(sections, func(s Section) bool { return s.Name == k.name }); at >= 0 {
			if err := readSection(path, sections[at], entries[i+1]); err != nil {
				return nil, err
			}
			continue
		}
		if k.value, err = scalar(entries[i+1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", path, k.line, k.name, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

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
