// Package contextfile finds the file with the contexts of a user's logins. It parses nothing, so that a small program
// can use it.
package contextfile

import "path/filepath"

// Path returns the path of the file of contexts, or "" if a program has no home folder. variable returns the value of
// an environment variable.
func Path(variable func(name string) string) string {
	if path := variable("SYNAPSE_CONTEXTS"); path != "" {
		return path
	}
	if dir := variable("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "synapse", "contexts.yaml")
	}
	for _, home := range []string{"HOME", "USERPROFILE"} {
		if dir := variable(home); filepath.IsAbs(dir) {
			return filepath.Join(dir, ".config", "synapse", "contexts.yaml")
		}
	}
	return ""
}
