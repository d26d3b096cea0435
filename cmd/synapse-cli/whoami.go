package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `whoami`, which prints the identity and the rights of the caller.

// whoObj is the object of -o json.
type whoObj struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Cluster    string     `json:"cluster,omitempty"` // missing: plaintext
	Name       string     `json:"name"`
	Role       string     `json:"role,omitempty"`
	Until      string     `json:"expiresAt,omitempty"`
	Token      string     `json:"token,omitempty"`  // ID of the token, if one was used instead of a certificate
	Groups     []string   `json:"groups,omitempty"` // from the issuer of the token
	Rights     []rightObj `json:"rights,omitempty"`
}

type rightObj struct {
	Name string `json:"name"`
	Own  bool   `json:"own,omitempty"` // only for the caller's own jobs
}

func (a *app) whoamiCommand() *cobra.Command {
	return a.objectFlag(&cobra.Command{
		Use:   "whoami",
		Short: "show your identity and permissions at the scheduler",
		Long: "Shows how the scheduler identifies you: your name, your role, and the expiry of your certificate or\n" +
			"token. Jobs that you submit belong to this name. Without TLS, every user is anonymous and may do\n" +
			"anything.",
		Example: "  synapse-cli whoami\n  synapse-cli whoami -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.with(a.whoAmI)
		},
	})
}

func (a *app) whoAmI(ctx context.Context, c *client.Client) error {
	reply, err := c.WhoAmI(ctx, &api.WhoAmI{})
	if err != nil {
		return err
	}
	return a.tellWho(reply)
}

func (a *app) tellWho(r *api.WhoAmIReply) error {
	o := whoObj{APIVersion: "synapse/v1", Kind: "Identity", Cluster: r.GetCluster(), Name: r.GetName(), Role: r.GetRole()}
	o.Token, o.Groups = r.GetPass(), r.GetGroups()
	if ms := r.GetUntilUnixMs(); ms != 0 {
		o.Until = time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	for _, right := range r.GetRights() {
		o.Rights = append(o.Rights, rightObj{right.GetName(), right.GetOwn()})
	}
	if a.style.Format != "" {
		return show.Object(a.out, a.style.Format, o)
	}
	if o.Cluster == "" {
		return a.data("%s: the scheduler does not use TLS; every user may do anything", o.Name)
	}
	by := ", until " + a.local(o.Until)
	switch {
	case o.Token != "":
		by = " with token " + o.Token + by
	case o.Until == "":
		by = ", through the scheduler's socket on this host"
	}
	err := a.data("%s, %s of cluster %s%s", o.Name, cmp.Or(o.Role, "nothing"), o.Cluster, by)
	if len(o.Groups) > 0 && err == nil {
		err = a.data("in the groups %s", strings.Join(o.Groups, ", "))
	}
	if err != nil {
		return err
	}
	for _, right := range r.GetRights() {
		text := right.GetText()
		if right.GetOwn() {
			text += " jobs of your own"
		} else if right.GetOfJob() {
			text += " jobs"
		}
		if err := a.data("  %-18s %s", right.GetName(), text); err != nil {
			return err
		}
	}
	return nil
}
