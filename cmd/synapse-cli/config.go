package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// This file owns where the connection's settings come from: first the command line, then the environment, then the
// file. Only these settings have twins in the environment: a task has a SYNAPSE_RANK, which must not become a --rank.

const fileFlag = "config"

// connectionFlags adds the settings as flags of every command.
func (a *app) connectionFlags(f *pflag.FlagSet) {
	f.StringVar(&a.config.Server, "server", "localhost:9000",
		"the scheduler's `host:port`; of several, all with commas between them")
	f.StringVar(&a.config.TLS, "tls", "", "use TLS, with this `folder` of a person's key and certificate")
	f.StringVar(&a.config.CA, "ca", "", "trust a proxy before the scheduler by this `file` of certificates, and use TLS")
	f.StringVar(&a.config.Cert, "cert", "", "show this `file`'s certificate to the proxy")
	f.StringVar(&a.config.Key, "key", "", "the certificate's private key `file`")
	a.retryMs = 10_000
	f.Var(span{&a.retryMs}, "retry", "how long to try again while no scheduler leads or answers; 0: not at all")
	f.String("token", "", "a token, kept for when there are identities")
	f.Lookup("token").Hidden = true
	f.String(fileFlag, "", "a YAML `file` with the settings server, retry, tls, ca, cert and key")
}

// connectionSettings fills in what the command line does not set.
func (a *app) connectionSettings(flags *pflag.FlagSet) error {
	given := map[string]bool{}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		text, there := a.lookup("SYNAPSE_" + strings.ToUpper(f.Name))
		given[f.Name] = f.Changed || there && text != ""
		if !f.Changed && there && text != "" {
			if err := f.Value.Set(text); err != nil {
				failed = errors.Join(failed, fmt.Errorf("SYNAPSE_%s %q: %w", strings.ToUpper(f.Name), text, err))
			}
		}
	})
	path := flags.Lookup(fileFlag).Value.String()
	if failed != nil || path == "" {
		return failed
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the settings: %w", err)
	}
	return fromFile(flags, given, path, text)
}

// fromFile reads a flat mapping of the settings' names.
func fromFile(flags *pflag.FlagSet, given map[string]bool, path string, text []byte) error {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != fileFlag {
			names = append(names, f.Name)
		}
	})
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file, or one of comments only
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: must be keys and values, as in `server: head:9000`", path)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		switch {
		case !slices.Contains(names, key.Value):
			return fmt.Errorf("%s:%d: there is no setting %q: known are %s", path, key.Line, key.Value,
				strings.Join(names, ", "))
		case seen[key.Value]:
			return fmt.Errorf("%s:%d: %s is there twice", path, key.Line, key.Value)
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s:%d: %s must be a text", path, value.Line, key.Value)
		}
		seen[key.Value] = true
		if given[key.Value] {
			continue
		}
		if err := flags.Lookup(key.Value).Value.Set(value.Value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
	}
	return nil
}
