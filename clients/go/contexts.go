package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the clusters that somebody has logged in to, and the settings that the environment has. The file of
// contexts is its owner's alone, since it has tokens: what it says never gets into an error.

// Context says where the schedulers of one cluster are, and what to show there.
type Context struct {
	Name    string `yaml:"name"`
	Server  string `yaml:"server"`
	Cluster string `yaml:"cluster"`
	User    string `yaml:"user"`
	Role    string `yaml:"role"`
	TLS     string `yaml:"tls,omitempty"`
	Token   string `yaml:"token,omitempty"`

	// Of a token that an issuer gave, and renews: who that is, as what the person logged in, and with what it is asked.
	Issuer  string `yaml:"issuer,omitempty"`
	Client  string `yaml:"client,omitempty"`
	Refresh string `yaml:"refresh,omitempty"`
}

// Contexts holds every context of a file.
type Contexts struct {
	path    string
	Current string    `yaml:"current,omitempty"`
	All     []Context `yaml:"contexts"`
}

const (
	maxContextsBytes = 1 << 20
	contextsFile     = "contexts.yaml"
)

// ContextsPath returns the path of the file of contexts; empty: there is none, as for a program without a home.
// variable returns a variable of the environment.
func ContextsPath(variable func(name string) string) string {
	if path := variable("SYNAPSE_CONTEXTS"); path != "" {
		return path
	}
	if dir := variable("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "synapse", contextsFile)
	}
	for _, home := range []string{"HOME", "USERPROFILE"} {
		if dir := variable(home); filepath.IsAbs(dir) {
			return filepath.Join(dir, ".config", "synapse", contextsFile)
		}
	}
	return ""
}

// ReadContexts reads a file of contexts. A file that is not there has none.
func ReadContexts(path string) (*Contexts, error) {
	all := &Contexts{path: path}
	if path == "" {
		return all, nil
	}
	text, err := identity.ReadPrivate(path, maxContextsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, invalid("`synapse-cli login` makes the file, SYNAPSE_CONTEXTS names another", "the contexts: %s", err)
	}
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	if err := from.Decode(all); err != nil && !errors.Is(err, io.EOF) {
		// The decoder's own words may have a token in them.
		return nil, invalid("move it away, and log in again", "the contexts: %s is not a file of contexts", path)
	}
	all.sort()
	return all, nil
}

func (c *Contexts) sort() {
	slices.SortFunc(c.All, func(a, b Context) int { return cmp.Compare(a.Name, b.Name) })
}

// Find returns the context of a name.
func (c *Contexts) Find(name string) (*Context, error) {
	if i := slices.IndexFunc(c.All, func(one Context) bool { return one.Name == name }); i >= 0 {
		return &c.All[i], nil
	}
	if len(c.All) == 0 {
		return nil, invalid("`synapse-cli login HOST:PORT --token-file FILE` makes one",
			"there is no context %q: there are none", name)
	}
	var names []string
	for _, one := range c.All {
		names = append(names, one.Name)
	}
	return nil, invalid("there are "+strings.Join(names, ", "), "there is no context %q", name)
}

// Put adds a context, or replaces the one of its name.
func (c *Contexts) Put(one Context) {
	c.All = slices.DeleteFunc(c.All, func(old Context) bool { return old.Name == one.Name })
	c.All = append(c.All, one)
	c.sort()
}

// Save replaces the file: whole or not at all, and its owner's alone from the first byte.
func (c *Contexts) Save() error {
	if c.path == "" {
		return invalid("SYNAPSE_CONTEXTS names a file", "there is no place for contexts: HOME is not set")
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return (&identity.Folder{Dir: filepath.Dir(c.path)}).Write(filepath.Base(c.path), text)
}

// Environment returns the settings that synapse-cli goes by without flags. They are those of the variables
// SYNAPSE_SERVER, SYNAPSE_TLS, SYNAPSE_TOKEN, SYNAPSE_TOKEN_FILE, SYNAPSE_CA, SYNAPSE_CERT and SYNAPSE_KEY. Where none
// of them is set they are those of the context that SYNAPSE_CONTEXT names, or of the current one. Without any the
// scheduler is at localhost:9000. A token that an issuer renews is good until it ends: synapse-cli renews it.
func Environment(variable func(name string) string) (Config, error) {
	c := Config{
		Server: cmp.Or(variable("SYNAPSE_SERVER"), DefaultServer), TLS: variable("SYNAPSE_TLS"),
		Token: strings.TrimSpace(variable("SYNAPSE_TOKEN")), CA: variable("SYNAPSE_CA"), Cert: variable("SYNAPSE_CERT"),
		Key: variable("SYNAPSE_KEY"), Retry: DefaultRetry,
	}
	if path := variable("SYNAPSE_TOKEN_FILE"); path != "" {
		if c.Token != "" {
			return c, invalid("unset one of them", "SYNAPSE_TOKEN and SYNAPSE_TOKEN_FILE are both set")
		}
		text, err := identity.ReadPrivate(path, MaxTokenBytes)
		if c.Token = strings.TrimSpace(string(text)); err != nil || c.Token == "" {
			return c, invalid("a file of mode 0600 with what `synapse-cli token create` printed",
				"SYNAPSE_TOKEN_FILE: %s has no token: %v", path, err)
		}
	}
	name := variable("SYNAPSE_CONTEXT")
	if name == "" && (variable("SYNAPSE_SERVER") != "" || c.Token != "" || c.TLS != "" || c.CA != "" || c.Cert != "" ||
		c.Key != "") {
		return c, nil
	}
	all, err := ReadContexts(ContextsPath(variable))
	if err != nil {
		return c, err
	}
	if name = cmp.Or(name, all.Current); name == "" {
		return c, nil
	}
	one, err := all.Find(name)
	if err != nil {
		return c, err
	}
	return Config{Server: one.Server, TLS: one.TLS, Token: one.Token, Retry: DefaultRetry}, nil
}

// invalid returns the error for a setting that is wrong, and what to do about it.
func invalid(hint, format string, args ...any) error {
	return &Error{Code: messages.Code_CODE_INVALID, Text: fmt.Sprintf(format, args...), Hint: hint}
}
