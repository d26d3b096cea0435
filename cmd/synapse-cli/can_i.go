package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/server/api"
)

// This file owns `auth can-i`, which reports whether the caller has a right.

// rightsOf maps a verb and a kind, as kubectl's users write them, to the name of a right here.
var rightsOf = map[string]string{
	"create jobs": "submit", "submit jobs": "submit", "get jobs": "read-jobs", "list jobs": "read-jobs",
	"watch jobs": "read-jobs", "describe jobs": "read-jobs", "delete jobs": "cancel", "cancel jobs": "cancel",
	"hold jobs": "hold", "release jobs": "release", "requeue jobs": "requeue", "update jobs": "set-time-limit",
	"patch jobs": "set-time-limit", "exec jobs": "exec", "logs jobs": "read-logs", "get logs": "read-logs",
	"get nodes": "read-machines", "list nodes": "read-machines", "watch nodes": "read-machines",
	"cordon nodes": "cordon", "uncordon nodes": "cordon", "update nodes": "cordon", "drain nodes": "drain",
	"delete nodes": "remove", "remove nodes": "remove",
	"get queues": "read-queues", "list queues": "read-queues", "apply queues": "apply-queues",
	"update queues": "apply-queues", "create queues": "apply-queues", "delete queues": "apply-queues",
	"get tokens": "read-tokens", "list tokens": "read-tokens", "create tokens": "set-tokens",
	"delete tokens": "set-tokens", "revoke tokens": "set-tokens",
}

func (a *app) authCommand() *cobra.Command {
	quiet, list := false, false
	c := &cobra.Command{
		Use: "auth", Short: "permissions under kubectl's names (whoami)", Args: cobra.NoArgs, Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return exit.Hint("use `"+a.name+" auth can-i create jobs`, or `"+a.name+" whoami`",
				"the action of auth is missing")
		},
	}
	can := &cobra.Command{
		Use: "can-i VERB [TYPE | JOB] | RIGHT", Short: "check whether you have a right",
		Long: "Prints yes or no. The exit code is 0 for yes and 1 for no. If you have the right only for your own\n" +
			"jobs, the answer for a named job depends on its owner. A single word is the name of a right of\n" +
			"`whoami`, or a verb for jobs.",
		Example: "  synapse-cli auth can-i create jobs\n  synapse-cli auth can-i drain nodes\n" +
			"  synapse-cli auth can-i cancel job/train",
		Args: func(_ *cobra.Command, args []string) error {
			if list && len(args) == 0 {
				return nil
			}
			if list || len(args) == 0 || len(args) > 2 {
				return exit.Hint("run `"+a.name+" auth can-i create jobs`", "auth can-i requires a verb and a type")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				if list {
					return a.whoAmI(ctx, c)
				}
				return a.canI(ctx, c, args, quiet)
			})
		},
	}
	can.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; the exit code is the answer")
	can.Flags().BoolVar(&list, "list", false, "list all your rights, as whoami does")
	who := a.whoamiCommand()
	c.AddCommand(can, who)
	return c
}

// canI answers with the rights that the scheduler reports.
func (a *app) canI(ctx context.Context, c *client.Client, args []string, quiet bool) error {
	who, err := c.WhoAmI(ctx, &api.WhoAmI{})
	if err != nil {
		return err
	}
	right, job, err := askedRight(args, who)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(who.GetRights(), func(r *api.Right) bool { return r.GetName() == right })
	answer, code := "yes", exit.OK
	switch {
	case who.GetCluster() == "": // plaintext: everyone may do anything
	case at < 0:
		answer, code = "no", exit.Failed
	case who.GetRights()[at].GetOwn() && job == "":
		answer = "yes, for your own jobs"
	case who.GetRights()[at].GetOwn():
		j, err := c.Job(ctx, job)
		if err != nil {
			return err
		}
		if j.GetRecord().GetOwner().GetName() != who.GetName() {
			answer, code = "no, the owner of job "+j.GetRecord().GetId()+" is "+j.GetRecord().Whose(), exit.Failed
		}
	}
	if quiet {
		return exit.With(code)
	}
	if err := a.data("%s", answer); err != nil {
		return err
	}
	return exit.With(code)
}

// askedRight returns the right that the arguments name, and the job if they name one.
func askedRight(args []string, who *api.WhoAmIReply) (right, job string, err error) {
	verb := strings.ToLower(args[0])
	kind := "jobs"
	if len(args) > 1 {
		kind = strings.ToLower(args[1])
		if before, after, has := strings.Cut(args[1], "/"); has {
			kind, job = strings.ToLower(before), after
		}
		if !strings.HasSuffix(kind, "s") {
			kind += "s"
		}
		if other := kinds[kind]; other != "" {
			kind = other
		}
	}
	if right = rightsOf[verb+" "+kind]; right != "" {
		return right, job, nil
	}
	var names, verbs []string
	for _, r := range who.GetRights() {
		names = append(names, r.GetName())
	}
	if len(args) == 1 && slices.Contains(names, verb) {
		return verb, "", nil
	}
	for known := range rightsOf { //order: sorted below
		if word, of, _ := strings.Cut(known, " "); of == kind {
			verbs = append(verbs, word)
		}
	}
	if len(verbs) == 0 {
		return "", "", exit.Hint("use jobs, nodes, queues or tokens", "auth can-i: unknown type %q", args[1])
	}
	slices.Sort(verbs)
	return "", "", exit.Hint(spelling.Meant(verb, verbs), "auth can-i: unknown verb %q for %s", args[0], kind)
}
