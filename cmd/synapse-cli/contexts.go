package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
)

// This file owns the clusters that somebody has logged in to: a file that is its owner's alone, since it has tokens.
// What it says never gets into an error.

// realm is one cluster: where its schedulers are, and what is shown there. People call it a context.
type realm struct {
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

// realms are all of them.
type realms struct {
	path    string
	Current string  `yaml:"current,omitempty"`
	All     []realm `yaml:"contexts"`
}

const (
	maxContextsBytes = 1 << 20
	contextsFile     = "contexts.yaml"
)

// contextName is what one may be called: it is typed, completed and printed.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// contextsPath is where they are; empty: nowhere, as for a program without a home.
func (a *app) contextsPath() string {
	if path := a.variable("SYNAPSE_CONTEXTS"); path != "" {
		return path
	}
	if dir := a.variable("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "synapse", contextsFile)
	}
	for _, home := range []string{"HOME", "USERPROFILE"} {
		if dir := a.variable(home); filepath.IsAbs(dir) {
			return filepath.Join(dir, ".config", "synapse", contextsFile)
		}
	}
	return ""
}

// realms reads them. No file has none.
func (a *app) realms() (*realms, error) {
	all := &realms{path: a.contextsPath()}
	if all.path == "" {
		return all, nil
	}
	text, err := identity.ReadPrivate(all.path, maxContextsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, exit.Hint("`synapse-cli login` makes the file, SYNAPSE_CONTEXTS names another", "the contexts: %s", err)
	}
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	if err := from.Decode(all); err != nil && !errors.Is(err, io.EOF) {
		// The decoder's own words may have a token in them.
		return nil, exit.Hint("move it away, and log in again", "the contexts: %s is not a file of contexts", all.path)
	}
	all.sort()
	return all, nil
}

func (r *realms) sort() {
	slices.SortFunc(r.All, func(a, b realm) int { return cmp.Compare(a.Name, b.Name) })
}

// find is the realm of a name.
func (r *realms) find(name string) (*realm, error) {
	if i := slices.IndexFunc(r.All, func(one realm) bool { return one.Name == name }); i >= 0 {
		return &r.All[i], nil
	}
	if len(r.All) == 0 {
		return nil, exit.Hint("`synapse-cli login HOST:PORT --token-file FILE` makes one",
			"there is no context %q: there are none", name)
	}
	return nil, exit.Hint("there are "+strings.Join(r.names(), ", "), "there is no context %q", name)
}

func (r *realms) names() (all []string) {
	for _, one := range r.All {
		all = append(all, one.Name)
	}
	return all
}

// put adds a realm, or replaces the one of its name.
func (r *realms) put(one realm) {
	r.All = slices.DeleteFunc(r.All, func(old realm) bool { return old.Name == one.Name })
	r.All = append(r.All, one)
	r.sort()
}

// save replaces the file: whole or not at all, and its owner's alone from the first byte.
func (r *realms) save() error {
	if r.path == "" {
		return exit.Hint("SYNAPSE_CONTEXTS names a file", "there is no place for contexts: HOME is not set")
	}
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	return (&identity.Folder{Dir: filepath.Dir(r.path)}).Write(filepath.Base(r.path), text)
}

// change reads the contexts, has them changed, and keeps them, while no other process does: two that renew a token at
// the same time would show its issuer one refresh token twice, as a thief does.
func (a *app) change(work func(*realms) error) error {
	path := a.contextsPath()
	if path != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			defer lock.Close()
			err = exclusive(lock)
		}
		if err != nil {
			return fmt.Errorf("the contexts: %w", err)
		}
	}
	all, err := a.realms()
	if err == nil {
		err = work(all)
	}
	if err != nil {
		return err
	}
	return all.save()
}

func (a *app) contextsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "contexts",
		Short:   "list the clusters that you have logged in to",
		Long:    "Lists the clusters that `login` has kept. The one with a * is spoken to where nothing else says with whom.",
		Example: "  synapse-cli contexts\n  synapse-cli contexts -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.realms()
			if err != nil {
				return err
			}
			var list []*show.Context
			for _, one := range all.All {
				list = append(list, &show.Context{
					Name: one.Name, Current: one.Name == all.Current, Server: one.Server, Cluster: one.Cluster, User: one.User,
					Role: one.Role, Shows: cmp.Or(one.TLS, "token"),
				})
			}
			return show.Contexts(a.out, a.style, list)
		},
	}
	a.listFlags(c)
	return c
}

func (a *app) contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "context", Short: "choose the cluster that is spoken to", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "use NAME",
		Short: "speak to this cluster from now on",
		Long: "Makes a context the current one. It counts where neither a flag nor the environment nor the file of\n" +
			"--config says with whom to speak; --context NAME means one for a single command.",
		Example:           "  synapse-cli context use research",
		Args:              named("context", "research", 1),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			var one *realm
			err := a.change(func(all *realms) (err error) {
				if one, err = all.find(args[0]); err == nil {
					all.Current = one.Name
				}
				return err
			})
			if err != nil {
				return err
			}
			a.say("Commands go to cluster %s at %s now, as %s (%s)", one.Cluster, one.Server, one.User, one.Role)
			return nil
		},
	})
	return c
}

func (a *app) completeContexts(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	all, err := a.realms()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, one := range all.All {
		if strings.HasPrefix(one.Name, prefix) {
			words = append(words, one.Name+"\t"+one.User+" at "+one.Server)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
