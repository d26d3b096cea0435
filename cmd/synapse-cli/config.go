package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file reads the connection settings. Their sources in order of precedence are the command line, the
// environment, the file, the context (contexts.go), and finally the socket of a local scheduler. Only these
// settings have environment variables. For example, a task has a variable SYNAPSE_RANK, which must not become a
// value of --rank.

const (
	fileFlag    = "config"
	tokenFlag   = "token-file"
	contextFlag = "context"
	// tokenVariable contains a token itself.
	tokenVariable = "SYNAPSE_TOKEN"
)

// saysWhom lists the settings for the scheduler's address and the credentials.
var saysWhom = []string{"server", "tls", "ca", "cert", "key", tokenFlag}

// twinOf returns the environment variable of a setting.
func twinOf(flag string) string {
	return "SYNAPSE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// connectionFlags adds the settings as flags of every command.
func (a *app) connectionFlags(f *pflag.FlagSet) {
	f.StringVar(&a.config.Server, "server", client.DefaultServer,
		"address `host:port` of the scheduler (several are separated by commas), or unix:PATH for the socket of a "+
			"scheduler on this host")
	f.StringVar(&a.config.TLS, "tls", "",
		"use TLS with the user's key and certificate in this `folder`, or with those of an outside issuer that a "+
			"file names (docs/operate/spiffe.md)")
	f.StringVar(&a.config.CA, "ca", "",
		"use TLS, and verify the proxy in front of the scheduler with this `file` of CA certificates")
	f.StringVar(&a.config.Cert, "cert", "", "client certificate `file` for the proxy")
	f.StringVar(&a.config.Key, "key", "", "private key `file` of --cert")
	a.retryMs = client.DefaultRetry.Milliseconds()
	f.Var(span{&a.retryMs}, "retry", "maximum time to retry while no scheduler leads or answers; 0 disables retries")
	f.String(tokenFlag, "", "use the token in this `file` (default: SYNAPSE_TOKEN, or the token of `login`)")
	f.String(contextFlag, "", "use the cluster saved under this `name` by `login`")
	f.String(fileFlag, "", "YAML settings `file` with the keys server, retry, tls, token-file, ca, cert and key")
}

// connectionSettings sets what the command line does not set, from the environment, the file and, if requested, the
// context.
func (a *app) connectionSettings(flags *pflag.FlagSet, contexts bool) error {
	given := map[string]bool{}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		text, there := a.lookup(twinOf(f.Name))
		given[f.Name] = f.Changed || there && text != ""
		if !f.Changed && there && text != "" {
			if err := f.Value.Set(text); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s %q: %w", twinOf(f.Name), text, err))
			}
		}
	})
	path := flags.Lookup(fileFlag).Value.String()
	if failed == nil && path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return exit.Usage("settings: %s", err)
		}
		failed = fromFile(flags, given, path, text)
	}
	if failed != nil {
		return exit.Usage("%s", failed)
	}
	if err := a.tokenSettings(flags); err != nil || !contexts {
		return err
	}
	return a.contextSettings(flags, given)
}

// variable returns an environment variable, or "" if it is not set.
func (a *app) variable(name string) string {
	if text, ok := a.lookup(name); ok {
		return text
	}
	return ""
}

// tokenSettings reads the token from the file or the environment.
func (a *app) tokenSettings(flags *pflag.FlagSet) (err error) {
	path := flags.Lookup(tokenFlag).Value.String()
	text := a.variable(tokenVariable)
	switch {
	case path == "":
		a.config.Token = strings.TrimSpace(text)
	case text != "" && !flags.Changed(tokenFlag):
		return exit.Hint("unset one of them", "%s and %s are both set", tokenVariable, twinOf(tokenFlag))
	default:
		if a.config.Token, err = a.readToken(path); err != nil {
			return exit.Hint("use a file of mode 0600 with a token from `synapse-cli token create`", "--%s: %s",
				tokenFlag, err)
		}
		if a.config.Token == "" {
			return exit.Hint("use a file with a token from `synapse-cli token create`", "--%s %s: file is empty",
				tokenFlag, path)
		}
	}
	return nil
}

// contextSettings applies a context. A named context overrides the environment and the file. The current context
// applies only if no other setting names a scheduler or a credential. The command line overrides both.
func (a *app) contextSettings(flags *pflag.FlagSet, given map[string]bool) error {
	name := flags.Lookup(contextFlag).Value.String()
	said := a.config.Token != ""
	for _, flag := range saysWhom {
		said = said || given[flag]
	}
	if name == "" && said {
		return nil
	}
	all, err := a.contexts()
	if err != nil {
		return err
	}
	if name == "" {
		if name = all.Current; name == "" {
			a.speakHere()
			return nil
		}
	}
	one, err := all.Find(name)
	if err != nil {
		return err
	}
	if !flags.Changed("server") {
		a.config.Server = one.Server
	}
	for _, flag := range saysWhom[1:] {
		if flags.Changed(flag) {
			return nil
		}
	}
	a.config.TLS, a.config.Token, a.config.CA, a.config.Cert, a.config.Key = one.TLS, one.Token, "", "", ""
	if one.Refresh != "" {
		a.config.Fresh = func(ctx context.Context) (string, time.Time, error) { return a.fresh(ctx, name) }
	}
	return nil
}

// speakHere selects the socket of a local scheduler, if it exists and permits access.
func (a *app) speakHere() {
	if path := unixsocket.Path(unixsocket.DataDir); a.mine != nil && a.mine(path) {
		a.config.Server = unixsocket.Scheme + path
	}
}

// fromFile reads a flat mapping of settings.
func fromFile(flags *pflag.FlagSet, given map[string]bool, path string, text []byte) error {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != fileFlag {
			names = append(names, f.Name)
		}
	})
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); errors.Is(err, io.EOF) {
		return nil // empty, or only comments
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: must contain keys and values, such as `server: head:9000`", path)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		switch {
		case !slices.Contains(names, key.Value):
			return fmt.Errorf("%s:%d: unknown setting %q: use %s", path, key.Line, key.Value,
				strings.Join(names, ", "))
		case seen[key.Value]:
			return fmt.Errorf("%s:%d: duplicate setting %s", path, key.Line, key.Value)
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s:%d: %s must be a string", path, value.Line, key.Value)
		}
		seen[key.Value] = true
		if given[key.Value] {
			continue
		}
		if err := flags.Lookup(key.Value).Value.Set(value.Value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
		given[key.Value] = true // overrides the current context
	}
	return nil
}
