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

// This file owns `token`: what a machine joins with that makes its own key, and what a person shows in place of a
// certificate.

// The times for which tokens are good where nobody says it.
const (
	machineTTL = time.Hour
	personTTL  = identity.LifePerson
)

// tokenFlags are the flags of `token create`.
type tokenFlags struct {
	by, role   string
	name, user string
	out        string
	ttlMs      int64
	uses       int
	bounds     identity.Bounds // of a machine's
}

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "make tokens with which machines join and people log in", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	t := &tokenFlags{uses: 1}
	c := &cobra.Command{
		Use:   "create",
		Short: "make a token with which a machine joins, or a person logs in",
		Long: "Prints a token: one word, with the cluster's name, the digest of its root, and a secret. It is shown this\n" +
			"once, and whoever has it can use it, so hand it on as you would a password.\n\n" +
			"A machine that joins with it (synapse-node --tls DIR --token FILE) makes its key itself, knows the scheduler by\n" +
			"the digest, and gets its certificate. The scheduler of the folder --by keeps a hash alone, and refuses a token\n" +
			"that is spent or over; the default --ttl is 1h. What --gpus, --gpu-type, --labels and --topology say is in the\n" +
			"certificate: a machine that claims anything else is given no work. What they do not say, it may claim.\n\n" +
			"A person's (--role admin, operator, submitter or viewer, and --user) is for `synapse-cli login`, is made by an\n" +
			"admin, and owns what is submitted with it under that name. The secret is made here and does not travel: the\n" +
			"cluster keeps its hash. The default --ttl is 90 days; `token revoke` ends it.",
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
	f.StringVar(&t.by, "by", "", "of a machine's: the `folder` of the scheduler that will know it, on its machine")
	f.StringVar(&t.role, "role", string(identity.RoleNode),
		"what its bearer becomes: node, "+identity.Listed(identity.People))
	f.StringVar(&t.name, "node-name", "", "the machine's `name`; without it, the machine says one that nobody has")
	f.StringVar(&t.user, "user", "", "the person's `name`, who owns what is submitted with it")
	f.StringVar(&t.out, "out", "", "write it to this new `file`, of mode 0600, and not to standard output")
	f.Var(span{&t.ttlMs}, "ttl", "how long it is good")
	f.IntVar(&t.uses, "uses", 1, "how many machines may join with it")
	f.String(string(identity.BoundGPUs), "", "of a machine's: how `many` GPUs it may have, at most")
	f.String(string(identity.BoundGPUType), "", "of a machine's: the `type` that its GPUs are of")
	f.String(string(identity.BoundLabels), "", "of a machine's: the labels that it may have, as `key=value,…`")
	f.String(string(identity.BoundPlace), "", "of a machine's: where it stands, as `level=place,…`")
	roles := []string{string(identity.RoleNode)}
	for _, role := range identity.People {
		roles = append(roles, string(role))
	}
	a.completeFlag(c, "role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// readBounds takes what a machine may claim, as far as it was said.
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
		return exit.Usage("`token create` takes flags only")
	case t.ttlMs <= 0:
		return exit.Usage("--ttl %s: must be longer than nothing", jobfile.FormatDuration(t.ttlMs))
	case !node && !person:
		return exit.Hint("node, or of people "+identity.Listed(identity.People),
			"--role %q: is no role that has tokens", t.role)
	case node && t.user != "":
		return exit.Hint("--role submitter --user "+t.user,
			"--user is for a person's token, and a person has another role than node")
	case node && t.by == "":
		return exit.Hint("the folder that synapse-scheduler --tls has; a person's token has --role and --user",
			"--by is missing")
	case person && t.user == "":
		return exit.Hint("as in `synapse-cli token create --role submitter --user ann`", "--user is missing")
	case person && (t.by != "" || t.name != "" || t.uses != 1):
		return exit.Usage("--by, --node-name and --uses are for tokens of machines")
	case person && len(t.bounds) > 0:
		return exit.Usage("--gpus, --gpu-type, --labels and --topology are for tokens of machines")
	case person && t.ttlMs > api.MaxPassTTL.Milliseconds():
		return exit.Usage("--ttl %s: a person's token is good for %s at most", jobfile.FormatDuration(t.ttlMs),
			jobfile.FormatDuration(api.MaxPassTTL.Milliseconds()))
	}
	return nil
}

// inviteMachine makes the token of a machine.
func (a *app) inviteMachine(t *tokenFlags) error {
	folder, err := identity.OpenFolder(t.by)
	if err != nil {
		return exit.Hint("the folder that synapse-scheduler --tls has", "--by: %s", err)
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

// createPass makes the token of a person.
func (a *app) createPass(ctx context.Context, c *client.Client, t *tokenFlags) error {
	cluster, root, ok := c.Root()
	if !ok {
		return exit.Hint("an admin's: --tls DIR, or `synapse-cli login`",
			"a person's token is made over TLS, with a certificate of the cluster's own authority or a token")
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
		a.say("Token %s of %s (%s) is good until %s. It is not shown again; `token revoke %s` ends it.", made.GetId(),
			t.user, t.role, time.UnixMilli(made.GetUntilUnixMs()).Local().Format("2006-01-02 15:04"), made.GetId())
		return text, nil
	})
}

// hand makes a token, and writes it to a new file or to standard output. The file is there before the token is.
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
		return exit.Hint("name a file that is not there yet", "--out: %s", err)
	}
	text, err := create()
	if err == nil {
		_, err = fmt.Fprintln(file, text)
	}
	if failed := cmp.Or(err, file.Close()); failed != nil {
		_ = os.Remove(out) // it is empty, or not whole
		return failed
	}
	return nil
}

func (a *app) tokenListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list the tokens of people that are good",
		Long:    "Lists the tokens of people: whose each is, who made it, until when it is good. Only admins may.",
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
		Use: "revoke ID", Short: "end a person's token",
		Long: "Ends a token: whoever shows it is refused from now on, and what is open with it is closed within a minute.\n" +
			"Only admins may. A machine's token ends by its time and its uses.",
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
