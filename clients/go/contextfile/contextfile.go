// Package contextfile finds the file with the contexts of a user's logins. It also reads
// the simple form in which synapse-cli writes this file, so that a small program needs no YAML parser.
package contextfile

import (
	"path/filepath"
	"strings"
)

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

// Entry is one context.
type Entry struct{ Server, TLS, Token string }

// Current returns the current context in the text of a file. It reports false if there is none, or if the text has
// anything that synapse-cli does not write for a login with a certificate or with a token of the cluster.
func Current(text string) (*Entry, bool) {
	current, name := "", ""
	all := map[string]*Entry{}
	var entry *Entry
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		key, value, is := strings.Cut(line, ": ")
		switch {
		case line == "contexts:":
			continue
		case !is || !simple(value):
			return nil, false
		}
		switch key {
		case "current":
			current = value
		case "    - name":
			name, entry = value, &Entry{}
			if all[name] != nil {
				return nil, false
			}
			all[name] = entry
		case "      server", "      tls", "      token", "      cluster", "      user", "      role":
			if entry == nil {
				return nil, false
			}
			entry.set(strings.TrimSpace(key), value)
		default:
			return nil, false
		}
	}
	entry = all[current]
	return entry, entry != nil && entry.Server != ""
}

func (e *Entry) set(key, value string) {
	switch key {
	case "server":
		e.Server = value
	case "tls":
		e.TLS = value
	case "token":
		e.Token = value
	}
}

// simple reports whether a value has the same meaning in YAML and as plain text.
func simple(value string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/"
	return value != "" && !strings.EqualFold(value, "null") && strings.ContainsRune(letters, rune(value[0])) &&
		strings.Trim(value, letters+"._:@-") == "" && !strings.HasSuffix(value, ":")
}
