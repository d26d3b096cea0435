package settings

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file owns which flag an unknown one was meant to be.

// MeantFlag returns the flag that an unknown one was most likely meant to be. It returns "" where none is near, and for
// other errors.
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

// RenamedFlag returns the name that replaced an unknown flag of a command. It returns "" for flags that never existed,
// and for other errors.
func RenamedFlag(command string, err error) (old, now string) {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return "", ""
	}
	old = unknown.GetSpecifiedName()
	now, _ = renamed.Find(renamed.Flag, command, old)
	return old, now
}

// programOf returns the program whose variables have this prefix: SYNAPSE_NODE_ is of synapse-node.
func programOf(prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(prefix, "_"), "_", "-"))
}

// renamedVariables refuses variables whose flags have another name now.
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

// meantKey returns what an unknown key was meant to be: its present name if it was renamed, or the nearest of names.
func (p *problems) meantKey(path, name string, names []string) string {
	if now, is := renamed.Key(renamed.FileOf(p.program), path); is {
		return "use " + now
	}
	return spelling.Meant(name, names)
}
