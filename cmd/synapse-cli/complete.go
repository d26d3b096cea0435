package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements completion with data from the server. It answers within a second or not at all, and never
// with an error.

const (
	completeTimeout = time.Second
	maxCompletions  = 200
)

// refuseShells makes `completion` refuse an unknown shell. The library would show the help and succeed. The
// library's command must be created after its output is set.
func (a *app) refuseShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args, c.RunE = cobra.NoArgs, func(*cobra.Command, []string) error {
			return exit.Hint("run `"+a.name+" completion bash` (or fish, powershell, zsh)", "SHELL is missing")
		}
	}
}

// completeFlag sets the completion of a flag's value. It can only fail for an unknown flag.
func (a *app) completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

func filesOnly(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeQueues completes the configured queues and the queues with jobs.
func (a *app) completeQueues(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		reply, err := a.queues(ctx, cl)
		return queueWords(reply), err
	})
}

// queueWords returns the names of the queues with the number of their jobs.
func queueWords(reply *messages.GetQueuesReply) (words []string) {
	for _, name := range namesOf(reply) {
		for _, u := range reply.GetUsage() {
			if u.GetQueue() == name {
				name += fmt.Sprintf("\t%d running, %d waiting", u.GetRunning(), u.GetWaiting())
				break
			}
		}
		words = append(words, name)
	}
	return words
}

func (a *app) completeLevels(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		reply, err := cl.Cluster(ctx, &api.Cluster{})
		return reply.GetLevels(), err
	})
}

// completeBoth completes jobs and nodes.
func (a *app) completeBoth(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	jobs, _ := a.completeJobs(c, args, prefix)
	nodes, directive := a.completeNodes(c, args, prefix)
	return append(jobs, nodes...), directive
}

// several completes the last of several values that are separated by commas.
func several(one cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		done := text[:strings.LastIndexByte(text, ',')+1]
		words, directive := one(c, args, text[len(done):])
		for i, word := range words {
			words[i] = done + word
		}
		return words, directive
	}
}

// completeWords completes a flag whose values are fixed words, also several separated by commas.
func (a *app) completeWords(c *cobra.Command, flag string, words []string) {
	a.completeFlag(c, flag,
		several(func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			near := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
			return near, cobra.ShellCompDirectiveNoFileComp
		}))
}

func (a *app) complete(prefix string, list func(context.Context, *client.Client) ([]string, error)) ([]string,
	cobra.ShellCompDirective) {
	var words []string
	a.completing = true
	// After an error nothing is completed, because there is no place to report it.
	_ = a.with(func(ctx context.Context, cl *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, completeTimeout)
		defer cancel()
		all, err := list(ctx, cl)
		for _, word := range all {
			if strings.HasPrefix(word, prefix) && len(words) < maxCompletions {
				words = append(words, word)
			}
		}
		return err
	})
	return words, cobra.ShellCompDirectiveNoFileComp
}
