package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/clients/go/contextfile"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file implements the contexts of a user's logins, and the settings from the environment. Only the owner
// may read the file of contexts, because it contains tokens. Errors therefore never quote its content.

// Context holds the addresses and the credentials for one cluster.
type Context struct {
	Name    string `yaml:"name"`
	Server  string `yaml:"server"`
	Cluster string `yaml:"cluster"`
	User    string `yaml:"user"`
	Role    string `yaml:"role"`
	TLS     string `yaml:"tls,omitempty"`
	Token   string `yaml:"token,omitempty"`

	// For a renewable token of an issuer: the issuer, the user name of the login, and the settings of the
	// requests.
	Issuer  string `yaml:"issuer,omitempty"`
	Client  string `yaml:"client,omitempty"`
	Refresh string `yaml:"refresh,omitempty"`
}

// Contexts holds all contexts of a file.
type Contexts struct {
	path    string
	Current string    `yaml:"current,omitempty"`
	All     []Context `yaml:"contexts"`
}

const maxContextsBytes = 1 << 20

// ContextsPath returns the path of the file of contexts, or "" if a program has no home folder. variable
// returns the value of an environment variable.
func ContextsPath(variable func(name string) string) string { return contextfile.Path(variable) }

// ReadContexts reads a file of contexts. A missing file contains no contexts.
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
		return nil, invalid("log in with `synapse-cli login`, or set SYNAPSE_CONTEXTS to the file", "read contexts: %s",
			err)
	}
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	if err := from.Decode(all); err != nil && !errors.Is(err, io.EOF) {
		// The decoder's error may quote a token.
		return nil, invalid("move the file away, and log in again", "read contexts: %s is not a file of contexts", path)
	}
	all.sort()
	return all, nil
}

func (c *Contexts) sort() {
	slices.SortFunc(c.All, func(a, b Context) int { return cmp.Compare(a.Name, b.Name) })
}

// Find returns the context with this name.
func (c *Contexts) Find(name string) (*Context, error) {
	if i := slices.IndexFunc(c.All, func(one Context) bool { return one.Name == name }); i >= 0 {
		return &c.All[i], nil
	}
	if len(c.All) == 0 {
		return nil, invalid("run `synapse-cli login HOST:PORT --token-file FILE` to create one",
			"unknown context %q: no contexts exist", name)
	}
	var names []string
	for _, one := range c.All {
		names = append(names, one.Name)
	}
	return nil, invalid("use "+strings.Join(names, ", "), "unknown context %q", name)
}

// Put adds a context, or replaces the one with its name.
func (c *Contexts) Put(one Context) {
	c.All = slices.DeleteFunc(c.All, func(old Context) bool { return old.Name == one.Name })
	c.All = append(c.All, one)
	c.sort()
}

// Save replaces the file atomically. Only its owner can read it, also while it is written.
func (c *Contexts) Save() error {
	if c.path == "" {
		return invalid("set SYNAPSE_CONTEXTS to a file", "contexts cannot be stored: HOME is not set")
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return (&identity.Folder{Dir: filepath.Dir(c.path)}).Write(filepath.Base(c.path), text)
}

// settings holds the settings of a connection, from the file of SYNAPSE_CONFIG or from the environment.
type settings struct {
	Server    string `yaml:"server"`
	Retry     string `yaml:"retry"`
	TLS       string `yaml:"tls"`
	TokenFile string `yaml:"token-file"`
	CA        string `yaml:"ca"`
	Cert      string `yaml:"cert"`
	Key       string `yaml:"key"`
}

// readSettings reads a file of settings. Without a path it returns empty settings.
func readSettings(path string) (s settings, err error) {
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		from := yaml.NewDecoder(bytes.NewReader(text))
		from.KnownFields(true)
		if err = from.Decode(&s); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		err = invalid("set SYNAPSE_CONFIG to a YAML file with server, retry, tls, token-file, ca, cert and key",
			"settings: %s: %s", path, err)
	}
	return s, err
}

// says reports whether the settings contain a scheduler or a credential.
func (s *settings) says() bool {
	return s.Server != "" || s.TLS != "" || s.TokenFile != "" || s.CA != "" || s.Cert != "" || s.Key != ""
}

// Environment returns the settings that synapse-cli uses without flags. variable returns the value of an
// environment variable, like os.Getenv. The variables SYNAPSE_SERVER, SYNAPSE_TLS, SYNAPSE_TOKEN_FILE,
// SYNAPSE_CA, SYNAPSE_CERT, SYNAPSE_KEY and SYNAPSE_RETRY override the same settings in the file that
// SYNAPSE_CONFIG names. SYNAPSE_TOKEN contains a token itself. SYNAPSE_CONTEXT selects a context, which
// replaces all these settings except the retry time.
//
// If no setting names a scheduler or a credential, Environment uses the current context, then the socket of a
// scheduler on this host, then localhost:9000. Environment does not renew a token of an issuer; synapse-cli
// does.
func Environment(variable func(name string) string) (Config, error) {
	s, err := readSettings(variable("SYNAPSE_CONFIG"))
	if err != nil {
		return Config{}, err
	}
	for name, to := range map[string]*string{ //order: each setting is independent
		"SYNAPSE_SERVER": &s.Server, "SYNAPSE_RETRY": &s.Retry, "SYNAPSE_TLS": &s.TLS, "SYNAPSE_TOKEN_FILE": &s.TokenFile,
		"SYNAPSE_CA": &s.CA, "SYNAPSE_CERT": &s.Cert, "SYNAPSE_KEY": &s.Key,
	} {
		*to = cmp.Or(variable(name), *to)
	}
	c := Config{Server: cmp.Or(s.Server, DefaultServer), TLS: s.TLS, CA: s.CA, Cert: s.Cert, Key: s.Key,
		Token: strings.TrimSpace(variable("SYNAPSE_TOKEN")), Retry: DefaultRetry}
	if s.Retry != "" {
		ms, err := jobfile.ParseDuration(s.Retry)
		if err != nil {
			return c, invalid("write 10s or 1m", "SYNAPSE_RETRY %q: %s", s.Retry, err)
		}
		c.Retry = time.Duration(ms) * time.Millisecond
	}
	if s.TokenFile != "" {
		if c.Token != "" {
			return c, invalid("unset one of them", "SYNAPSE_TOKEN and SYNAPSE_TOKEN_FILE are both set")
		}
		text, err := identity.ReadPrivate(s.TokenFile, MaxTokenBytes)
		if err != nil {
			return c, invalid("use a file of mode 0600 with a token from `synapse-cli token create`",
				"SYNAPSE_TOKEN_FILE: %s", err)
		}
		if c.Token = strings.TrimSpace(string(text)); c.Token == "" {
			return c, invalid("use a file with a token from `synapse-cli token create`",
				"SYNAPSE_TOKEN_FILE: %s is empty",
				s.TokenFile)
		}
	}
	name := variable("SYNAPSE_CONTEXT")
	if name == "" && (s.says() || c.Token != "") {
		return c, nil
	}
	return inContext(variable, name, c)
}

// inContext returns the settings of a context, or of the current context if name is empty. If there is no
// context, the settings stay the same, and the socket of a scheduler on this host is used.
func inContext(variable func(string) string, name string, c Config) (Config, error) {
	all, err := ReadContexts(ContextsPath(variable))
	if err != nil {
		return c, err
	}
	if name = cmp.Or(name, all.Current); name == "" {
		if path := unixsocket.Path(unixsocket.DataDir); unixsocket.Mine(path) {
			c.Server = unixsocket.Scheme + path
		}
		return c, nil
	}
	one, err := all.Find(name)
	if err != nil {
		return c, err
	}
	return Config{Server: one.Server, TLS: one.TLS, Token: one.Token, Retry: c.Retry}, nil
}

// invalid returns the error for an invalid setting, with a hint.
func invalid(hint, format string, args ...any) error {
	return &Error{Code: messages.Code_CODE_INVALID, Text: fmt.Sprintf(format, args...), Hint: hint}
}
