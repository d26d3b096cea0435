package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
)

// This file manages the contexts of a user's logins. The file is readable only by its owner, because it contains
// tokens. Errors never quote its content.

// contextName matches a valid name of a context, which is typed, completed and printed.
var contextName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
})

// contextsPath returns the path of the file of contexts, or "" for a program without a home folder.
func (a *app) contextsPath() string { return client.ContextsPath(a.variable) }

// contexts reads the contexts. Without a file there are none.
func (a *app) contexts() (*client.Contexts, error) { return client.ReadContexts(a.contextsPath()) }

// change reads, changes and saves the contexts while no other process does. Without this lock, two processes could
// send the same refresh token to an issuer, which looks like theft.
func (a *app) change(work func(*client.Contexts) error) error {
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
			return fmt.Errorf("read contexts: %w", err)
		}
	}
	all, err := a.contexts()
	if err == nil {
		err = work(all)
	}
	if err != nil {
		return err
	}
	return all.Save()
}

func (a *app) contextsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "contexts",
		Short:   "list the clusters you have logged in to",
		Long:    "Lists the clusters that `login` has saved. The cluster marked with * is the default.",
		Example: "  synapse-cli contexts\n  synapse-cli contexts -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.contexts()
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
		Use: "context", Short: "select the default cluster", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.contextUseCommand())
	return c
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "select a cluster as the default",
		Long: "Makes a context, which is a saved cluster, the default. Commands use the default context if no flag,\n" +
			"environment variable or --config file selects a scheduler. To select a context for a single command,\n" +
			"use `--context NAME`.",
		Example:           "  synapse-cli context use research",
		Args:              named("context", "research", 1),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			var one *client.Context
			err := a.change(func(all *client.Contexts) (err error) {
				if one, err = all.Find(args[0]); err == nil {
					all.Current = one.Name
				}
				return err
			})
			if err != nil {
				return err
			}
			a.say("Current cluster: %s at %s, as %s (%s)", one.Cluster, one.Server, one.User, one.Role)
			return nil
		},
	}
}

func (a *app) completeContexts(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	all, err := a.contexts()
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
