package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `token`: join tokens for nodes that create their own keys, and user tokens instead of
// certificates.

// The default lifetimes of tokens.
const (
	machineTTL = time.Hour
	personTTL  = identity.LifePerson
)

// tokenFlags holds the flags of `token create`.
type tokenFlags struct {
	by, role   string
	name, user string
	out        string
	ttlMs      int64
	uses       int
	bounds     identity.Bounds // of a node's token
}

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "manage join tokens of nodes and login tokens of users", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	t := &tokenFlags{uses: 1}
	c := &cobra.Command{
		Use:   "create",
		Short: "create a token for a node to join or a user to log in",
		Long: "Prints a token. A token is one word that contains the cluster's name, the digest of the cluster's\n" +
			"root certificate, and a secret. The token is shown only once. Anyone who has the token can use it,\n" +
			"so protect it like a password.\n\n" +
			"A node that joins with a token (synapse-node --tls DIR --token FILE) creates its own key, verifies\n" +
			"the scheduler with the digest, and receives a certificate. The scheduler of the folder --by stores\n" +
			"only a hash of the token. It refuses a token that is used up or expired; the default --ttl is 1h.\n" +
			"The flags --gpus, --gpu-type, --labels and --topology limit what the node may declare. Their values\n" +
			"are in the node's certificate, and a node that exceeds them gets no work. Without these flags, the\n" +
			"node may declare any value.\n\n" +
			"A user token is for `synapse-cli login`. An admin creates it with `--user NAME` and `--role ROLE`;\n" +
			"ROLE is admin, operator, submitter or viewer. The user owns all jobs submitted with the token. The\n" +
			"secret is generated locally and never sent; the cluster stores its hash. The default --ttl is 90\n" +
			"days; `token revoke` ends the token early.",
		Example: "  synapse-cli token create --by keys/scheduler --out n17.token\n" +
			"  synapse-cli token create --by keys/scheduler --node-name n17 --ttl 24h\n" +
			"  synapse-cli token create --by keys/scheduler --uses 64 --gpus 8 --gpu-type h100 --labels pool=train\n" +
			"  synapse-cli token create --role submitter --user ann --out ann.token\n" +
			"  synapse-cli token create --role viewer --user wall --ttl 7d",
		Args: func(c *cobra.Command, args []string) error {
			t.readBounds(c)
			return t.check(args)
		},
		RunE: func(*cobra.Command, []string) error {
			if t.role == string(identity.RoleNode) {
				return a.inviteMachine(t)
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.createPass(ctx, c, t) })
		},
	}
	f := c.Flags()
	f.StringVar(&t.by, "by", "",
		"`folder` of the scheduler that admits the node; run the command on the scheduler's host (node tokens only)")
	f.StringVar(&t.role, "role", string(identity.RoleNode),
		"role of the token: node, "+identity.Listed(identity.People))
	f.StringVar(&t.name, "node-name", "", "`name` of the node (default: any unused name that the node chooses)")
	f.StringVar(&t.user, "user", "", "`name` of the user who owns the jobs submitted with the token")
	f.StringVar(&t.out, "out", "", "write the token to this new `file` of mode 0600 instead of standard output")
	f.Var(span{&t.ttlMs}, "ttl", "validity period of the token")
	f.IntVar(&t.uses, "uses", 1, "number of nodes that may join with the token")
	f.String(string(identity.BoundGPUs), "", "maximum `number` of GPUs of the node (node tokens only)")
	f.String(string(identity.BoundGPUType), "", "GPU `type` of the node (node tokens only)")
	f.String(string(identity.BoundLabels), "", "labels that the node may have, as `key=value,…` (node tokens only)")
	f.String(string(identity.BoundPlace), "", "topology domains of the node, as `level=domain,…` (node tokens only)")
	roles := []string{string(identity.RoleNode)}
	for _, role := range identity.People {
		roles = append(roles, string(role))
	}
	a.completeFlag(c, "role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// readBounds parses the limits of a node that the flags set.
func (t *tokenFlags) readBounds(c *cobra.Command) {
	t.bounds = identity.Bounds{}
	for _, key := range []identity.Bound{
		identity.BoundGPUs, identity.BoundGPUType, identity.BoundLabels, identity.BoundPlace,
	} {
		if f := c.Flags().Lookup(string(key)); f.Changed {
			t.bounds[key] = f.Value.String()
		}
	}
}

func (t *tokenFlags) check(args []string) error {
	node, person := t.role == string(identity.RoleNode), slices.Contains(identity.People, identity.Role(t.role))
	if t.ttlMs == 0 {
		if t.ttlMs = machineTTL.Milliseconds(); person {
			t.ttlMs = personTTL.Milliseconds()
		}
	}
	switch {
	case len(args) > 0:
		return exit.Usage("`token create` accepts no arguments")
	case t.ttlMs <= 0:
		return exit.Usage("--ttl %s: must be positive", jobfile.FormatDuration(t.ttlMs))
	case !node && !person:
		return exit.Hint("use node, or a role of users: "+identity.Listed(identity.People),
			"--role %q: not a role with tokens", t.role)
	case node && t.user != "":
		return exit.Hint("for example: --role submitter --user "+t.user,
			"--user requires a role other than node")
	case node && t.by == "":
		return exit.Hint("use the folder that synapse-scheduler --tls uses, or --role and --user for a user token",
			"--by is missing")
	case person && t.user == "":
		return exit.Hint("run `synapse-cli token create --role submitter --user ann`", "--user is missing")
	case person && (t.by != "" || t.name != "" || t.uses != 1):
		return exit.Usage("--by, --node-name and --uses require a node token")
	case person && len(t.bounds) > 0:
		return exit.Usage("--gpus, --gpu-type, --labels and --topology require a node token")
	case person && t.ttlMs > api.MaxPassTTL.Milliseconds():
		return exit.Usage("--ttl %s: a user token is valid for at most %s", jobfile.FormatDuration(t.ttlMs),
			jobfile.FormatDuration(api.MaxPassTTL.Milliseconds()))
	}
	return nil
}

// inviteMachine creates a join token for a node.
func (a *app) inviteMachine(t *tokenFlags) error {
	folder, err := identity.OpenFolder(t.by)
	if err != nil {
		return exit.Hint("use the folder that synapse-scheduler --tls uses", "--by: %s", err)
	}
	return a.hand(t.out, func() (string, error) {
		until := time.Now().Add(time.Duration(t.ttlMs) * time.Millisecond)
		text, err := credential.Invite(folder, credential.Invitation{Name: t.name, Until: until, Bounds: t.bounds}, t.uses)
		if err != nil {
			return "", exit.Usage("%s", err)
		}
		return text, nil
	})
}

// createPass creates a user token.
func (a *app) createPass(ctx context.Context, c *client.Client, t *tokenFlags) error {
	cluster, root, ok := c.Root()
	if !ok {
		return exit.Hint("use an admin's --tls DIR, or log in with `synapse-cli login`",
			"user tokens require TLS and an admin's certificate or token of the cluster")
	}
	return a.hand(t.out, func() (string, error) {
		text, hash, err := credential.NewPass(cluster, root)
		if err != nil {
			return "", err
		}
		made, err := c.CreatePass(ctx, &api.CreatePass{Hash: hash, Role: t.role, Name: t.user, TtlMs: t.ttlMs})
		if err != nil {
			return "", err
		}
		a.say("Token %s of %s (%s) is valid until %s. The token is not shown again; `token revoke %s` revokes it.",
			made.GetId(),
			t.user, t.role, a.local(expiry(time.UnixMilli(made.GetUntilUnixMs()))), made.GetId())
		return text, nil
	})
}

// hand creates a token, and writes it to a new file or to standard output. The file is created before the token.
func (a *app) hand(out string, create func() (string, error)) error {
	if out == "" {
		text, err := create()
		if err != nil {
			return err
		}
		return a.data("%s", text)
	}
	file, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return exit.Hint("use a file that does not exist yet", "--out: %s", err)
	}
	text, err := create()
	if err == nil {
		_, err = fmt.Fprintln(file, text)
	}
	if failed := cmp.Or(err, file.Close()); failed != nil {
		_ = os.Remove(out) // it is empty or incomplete
		return failed
	}
	return nil
}

func (a *app) tokenListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list the valid tokens of users",
		Long:    "Lists the valid user tokens with their user, creator and expiry. Requires the role admin.",
		Example: "  synapse-cli token list\n  synapse-cli token list -o json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.with(a.listPasses) },
	}
	a.listFlags(c)
	return c
}

func (a *app) listPasses(ctx context.Context, c *client.Client) error {
	reply, err := c.ListPasses(ctx, &api.ListPasses{})
	if err != nil {
		return err
	}
	return show.Passes(a.out, a.style, reply.GetPasses())
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "revoke a user token",
		Long: "Revokes a user token. The scheduler refuses it immediately and closes its open connections within a\n" +
			"minute. Requires the role admin. A node token cannot be revoked; it ends when it is used up or\n" +
			"expires.",
		Example: "  synapse-cli token revoke 3f9a2c01d4e58b77",
		Args:    named("token", "3f9a2c01d4e58b77", 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				gone, err := c.RevokePass(ctx, &api.RevokePass{Id: args[0]})
				if err != nil {
					return err
				}
				a.say("Token %s of %s (%s) is revoked", gone.GetId(), gone.GetName(), gone.GetRole())
				return nil
			})
		},
	}
}

// expiry formats the end of a token or a certificate in UTC. The user sees it in the local time zone.
func expiry(at time.Time) string { return at.UTC().Format("2006-01-02 15:04Z") }
