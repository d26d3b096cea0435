package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/device"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `login` and `logout`, which add and remove contexts. A token is read from a file, the
// environment or standard input, because other users of the host can see command-line arguments.

// loginFlags holds the flags of `login` in addition to the connection flags.
type loginFlags struct{ name, root, oidc, client, scope string }

func (a *app) loginCommand() *cobra.Command {
	var l loginFlags
	c := &cobra.Command{
		Use:   "login HOST:PORT",
		Short: "save a cluster and its token, and use that cluster from now on",
		Long: "Checks that a scheduler accepts your token. The command then saves the scheduler's address and the\n" +
			"token as a context, under the name of the cluster or of --name. The token comes from --token-file (-\n" +
			"is standard input) or SYNAPSE_TOKEN. If --tls is set, the command saves the path of the certificate\n" +
			"folder instead of a token. The context is stored in a file of mode 0600 in your home directory. A\n" +
			"token of Synapse contains a digest of the cluster's root certificate. The command verifies the\n" +
			"scheduler with this digest before it sends the token.\n\n" +
			"If the cluster accepts tokens of an OpenID Connect issuer, --oidc requests a token from that issuer.\n" +
			"The command prints an address; open it in a browser on any device to log in. If you already have a\n" +
			"token of the issuer, pass it with --token-file. A token of an issuer does not identify the cluster,\n" +
			"so pass the cluster's root certificate with --root. This certificate is the file ca.pem in every\n" +
			"certificate folder of the cluster; it is not secret. If the issuer also returns a refresh token,\n" +
			"synapse-cli renews the token before it expires, until you run `logout`. Many issuers return a\n" +
			"refresh token only if --scope contains offline_access. Without a refresh token, log in again when\n" +
			"the token expires.",
		Example: "  synapse-cli login head1:9000 --token-file ann.token\n" +
			"  pass show research | synapse-cli login head1:9000,head2:9000 --token-file - --name research\n" +
			"  synapse-cli login head1:9000 --tls ~/keys/ann\n" +
			"  synapse-cli login head1:9000 --root ca.pem --oidc https://id.example.org --client-id synapse",
		Args: named("scheduler", "head1:9000 --token-file FILE", 1),
		RunE: func(c *cobra.Command, args []string) error { return a.login(c.Context(), args[0], l) },
	}
	f := c.Flags()
	f.StringVar(&l.name, "name", "", "context `name` (default: the name of the cluster)")
	f.StringVar(&l.root, "root", "", "root certificate `file` of the cluster, for a token of an issuer")
	f.StringVar(&l.oidc, "oidc", "", "request a token from the issuer at this `URL`")
	f.StringVar(&l.client, "client-id", "", "client `id` of this program at the issuer")
	f.StringVar(&l.scope, "scope", "openid profile email groups",
		"scopes to request from the issuer, as space-separated `words`")
	return c
}

// issued gets an issuer's token, if necessary with a login at the issuer. It returns the refresh token.
func (a *app) issued(ctx context.Context, l loginFlags) (refresh string, err error) {
	switch {
	case l.oidc == "" && l.client != "":
		return "", exit.Hint("add --oidc URL to name the issuer", "--client-id requires --oidc")
	case l.oidc == "" && l.root == "" && strings.Count(a.config.Token, ".") == 2:
		return "", exit.Hint("add --root ca.pem, a file in every certificate folder of the cluster",
			"--root is missing: a token of an issuer does not identify the cluster")
	case l.oidc == "" && l.root == "":
		return "", nil
	case l.root == "":
		return "", exit.Hint("add --root ca.pem, a file in every certificate folder of the cluster", "--root is missing")
	case l.oidc != "" && (l.client == "" || a.config.Token != "" || a.config.TLS != ""):
		return "", exit.Hint("run `synapse-cli login HOST:PORT --root ca.pem --oidc URL --client-id ID`",
			"--oidc requires --client-id and excludes tokens and certificates")
	}
	cluster, root, err := identity.ReadRoot(l.root)
	if err != nil {
		return "", exit.Usage("--root: %s", err)
	}
	tokens := device.Tokens{ID: a.config.Token}
	if l.oidc != "" {
		flow := device.Flow{Issuer: l.oidc, Client: l.client, Scope: l.scope, Tell: func(at, code string) {
			a.say("Open %s on any device and enter the code %s", at, code)
		}}
		if tokens, err = flow.Token(ctx); err != nil {
			return "", &exit.Failure{Code: exit.Failed, Text: "--oidc: " + err.Error()}
		}
	}
	a.config.Token = credential.WithRoot(cluster, root, tokens.ID)
	return tokens.Refresh, nil
}

func (a *app) login(ctx context.Context, server string, l loginFlags) error {
	name := l.name
	if err := a.connectionSettings(a.connection, false); err != nil {
		return err
	}
	a.config.Server = server
	refresh, err := a.issued(ctx, l)
	if err != nil {
		return err
	}
	if a.config.Token == "" && a.config.TLS == "" {
		return exit.Hint("add --token-file FILE, --token-file - for standard input, --tls DIR, or --oidc URL",
			"token or certificate is missing")
	}
	if name != "" && !contextName().MatchString(name) {
		return exit.Hint("use at most 63 letters, digits and ._-", "--name %q: not a valid name", name)
	}
	one := client.Context{Server: server, Token: a.config.Token}
	if refresh != "" {
		one.Issuer, one.Client, one.Refresh = l.oidc, l.client, refresh
	}
	if a.config.TLS != "" {
		if one.TLS, err = filepath.Abs(a.config.TLS); err != nil {
			return err
		}
	}
	c, err := client.Dial(a.config)
	if err != nil {
		return err
	}
	defer c.Close()
	who, err := c.WhoAmI(ctx, &api.WhoAmI{})
	if err != nil {
		return err
	}
	one.Name, one.Cluster = cmp.Or(name, who.GetCluster()), who.GetCluster()
	one.User, one.Role = who.GetName(), who.GetRole()
	err = a.change(func(all *client.Contexts) error {
		if old, err := all.Find(one.Name); err == nil && old.Cluster != one.Cluster {
			return exit.Hint("use --name to choose another name",
				"context %s already exists, of cluster %s at %s", old.Name, old.Cluster, old.Server)
		}
		all.Put(one)
		all.Current = one.Name
		return nil
	})
	if err != nil {
		return err
	}
	a.say("Logged in to cluster %s as %s (%s); context %s saved in %s",
		one.Cluster, one.User, one.Role, one.Name, a.contextsPath())
	if l.oidc != "" {
		a.sayRenewal(one, who.GetUntilUnixMs())
	}
	return nil
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [NAME]",
		Short: "remove a saved cluster and its token",
		Long: "Removes a saved context (default: the current one). The token stays valid until an admin revokes it\n" +
			"(`synapse-cli token revoke ID`; `whoami` shows the ID) or it expires. If the context has a refresh\n" +
			"token, the command asks the issuer to revoke it.",
		Example:           "  synapse-cli logout\n  synapse-cli logout research",
		ValidArgsFunction: a.completeContexts,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Hint("run the command once for each", "`logout` accepts one context, got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.logout(c.Context(), strings.Join(args, "")) },
	}
}

// logout removes a context, by default the current one.
func (a *app) logout(ctx context.Context, name string) error {
	var gone client.Context
	err := a.change(func(all *client.Contexts) error {
		if name == "" {
			name = all.Current
		}
		if name == "" {
			return exit.Hint("run `synapse-cli contexts` for a list", "no context is current: nothing to remove")
		}
		one, err := all.Find(name)
		if err != nil {
			return err
		}
		gone = *one
		all.All = slices.DeleteFunc(all.All, func(one client.Context) bool { return one.Name == name })
		if all.Current == name {
			all.Current = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.say("Removed context %s of cluster %s", gone.Name, gone.Cluster)
	if gone.Refresh != "" {
		if err := session(&gone).Revoke(ctx); err != nil {
			a.say("Issuer not notified of the logout: %s", err)
		}
	}
	return nil
}

// readToken reads a token from a file or from standard input. A terminal does not echo it.
func (a *app) readToken(path string) (string, error) {
	if path != "-" {
		text, err := identity.ReadPrivate(path, client.MaxTokenBytes)
		return strings.TrimSpace(string(text)), err
	}
	if file, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		a.say("Token (not shown while you type):")
		text, err := term.ReadPassword(int(file.Fd()))
		return strings.TrimSpace(string(text)), err
	}
	text, err := io.ReadAll(io.LimitReader(a.stdin, client.MaxTokenBytes+1))
	if err == nil && len(text) > client.MaxTokenBytes {
		err = errors.New("standard input has more than one token")
	}
	return strings.TrimSpace(string(text)), err
}
