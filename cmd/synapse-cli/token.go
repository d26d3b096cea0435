package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cluster/gate"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/jobfile"
)

// This file owns `token`: what a machine joins with that makes its own key.

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "make tokens with which machines join", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.tokenCreateCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var by, name, role string
	ttlMs, uses := time.Hour.Milliseconds(), 1
	c := &cobra.Command{
		Use:   "create",
		Short: "make a token with which a machine joins",
		Long: "Prints a token: one word, with the cluster's name, the digest of its root, and a secret. A machine that\n" +
			"joins with it (synapse-node --tls DIR --token FILE) makes its key itself, knows the scheduler by the digest,\n" +
			"and gets its certificate. Whoever has the token can join, so hand it on as you would a password. The scheduler\n" +
			"of the folder keeps a hash alone, and refuses a token that is spent or over.",
		Example: "  synapse-cli token create --by keys/scheduler > n17.token\n" +
			"  synapse-cli token create --by keys/scheduler --node-name n17 --ttl 24h\n" +
			"  synapse-cli token create --by keys/scheduler --uses 64",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return usage("`token create` takes flags only")
			case by == "":
				return usageHint("the folder that synapse-scheduler --tls has", "--by is missing")
			case role != string(identity.RoleNode):
				return usageHint("people's are made by `synapse-cli certify`", "--role %q: tokens are for the role node", role)
			case ttlMs <= 0:
				return usage("--ttl %s: must be longer than nothing", jobfile.FormatDuration(ttlMs))
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			folder, err := identity.OpenFolder(by)
			if err != nil {
				return usageHint("the folder that synapse-scheduler --tls has", "--by: %s", err)
			}
			until := time.Now().Add(time.Duration(ttlMs) * time.Millisecond)
			text, err := gate.Invite(folder, gate.Invitation{Name: name, Until: until}, uses)
			if err != nil {
				return usage("%s", err)
			}
			return a.data("%s", text)
		},
	}
	f := c.Flags()
	f.StringVar(&by, "by", "", "the `folder` of the scheduler that will know it, on its machine")
	f.StringVar(&role, "role", string(identity.RoleNode), "what its bearer becomes: node")
	f.StringVar(&name, "node-name", "", "the machine's `name`; without it, the machine says one that nobody has")
	f.Var(span{&ttlMs}, "ttl", "how long it is good")
	f.IntVar(&uses, "uses", 1, "how many machines may join with it")
	return c
}
