package settings

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file suggests a name for an unknown flag, variable or key.

// MeantFlag returns the most similar flag for an unknown one. It returns "" if none is similar, and for other
// errors.
func MeantFlag(flags *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return spelling.Nearest(unknown.GetSpecifiedName(), names)
}

// RenamedFlag returns the name that replaced an unknown flag of a command. It returns "" for flags that never
// existed, and for other errors.
func RenamedFlag(command string, err error) (old, now string) {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return "", ""
	}
	old = unknown.GetSpecifiedName()
	now, _ = renamed.Find(renamed.Flag, command, old)
	return old, now
}

// programOf returns the program whose variables have this prefix. For SYNAPSE_NODE_ it returns synapse-node.
func programOf(prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(prefix, "_"), "_", "-"))
}

// renamedVariables refuses variables whose flags were renamed.
func renamedVariables(prefix string, lookup func(string) (string, bool)) (failed error) {
	for _, n := range renamed.Settings() {
		if n.Kind != renamed.Env || n.In != programOf(prefix) {
			continue
		}
		if _, there := lookup(n.Old); there {
			failed = errors.Join(failed, fmt.Errorf("unknown environment variable %s: use %s", n.Old, n.New))
		}
	}
	return failed
}

// meantKey returns a suggestion for an unknown key: its new name if it was renamed, or the most similar of names.
func (p *problems) meantKey(path, name string, names []string) string {
	if now, is := renamed.Key(renamed.FileOf(p.program), path); is {
		return "use " + now
	}
	return spelling.Meant(name, names)
}
