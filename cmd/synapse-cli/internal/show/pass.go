package show

import (
	"io"

	"github.com/yi-json/synapse/server/api"
)

// This file prints users' tokens and login contexts. Neither contains a secret.

// passObj holds one token, also for programs.
type passObj struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	ID         string `json:"id"`
	User       string `json:"user"`
	Role       string `json:"role"`
	By         string `json:"createdBy"`
	Made       string `json:"createdAt"`
	Until      string `json:"expiresAt"`
}

var passColumns = []column[*passObj]{
	{head: "ID", cell: func(p *passObj) string { return p.ID }},
	{head: "USER", cell: func(p *passObj) string { return p.User }},
	{head: "ROLE", cell: func(p *passObj) string { return p.Role }},
	{head: "CREATED BY", cell: func(p *passObj) string { return p.By }},
	{head: "CREATED", times: true, cell: func(p *passObj) string { return p.Made }},
	{head: "EXPIRES", times: true, cell: func(p *passObj) string { return p.Until }},
}

// Passes prints a list of tokens.
func Passes(w io.Writer, s Style, list []*api.Pass) error {
	return several(w, s, "TokenList", passColumns, list, (*api.Pass).GetId,
		func(p *api.Pass) any { return passRow(p) }, passRow)
}

func passRow(p *api.Pass) *passObj {
	return &passObj{
		"synapse/v1", "Token", p.GetId(), p.GetName(), p.GetRole(), p.GetBy(), stamp(p.GetMadeUnixMs()),
		stamp(p.GetUntilUnixMs()),
	}
}

// Context is a cluster of a user's login.
type Context struct {
	Name    string `json:"name"`
	Current bool   `json:"current,omitempty"`
	Server  string `json:"server"`
	Cluster string `json:"cluster"`
	User    string `json:"user"`
	Role    string `json:"role"`
	Shows   string `json:"credential"` // token, or the folder of a certificate
}

var contextColumns = []column[*Context]{
	{head: "", cell: func(c *Context) string {
		if c.Current {
			return "*"
		}
		return ""
	}},
	{head: "NAME", cell: func(c *Context) string { return c.Name }},
	{head: "CLUSTER", cell: func(c *Context) string { return c.Cluster }},
	{head: "SERVER", cell: func(c *Context) string { return c.Server }},
	{head: "USER", cell: func(c *Context) string { return c.User }},
	{head: "ROLE", cell: func(c *Context) string { return c.Role }},
	{head: "CREDENTIAL", cell: func(c *Context) string { return c.Shows }},
}

// Contexts prints a list of contexts.
func Contexts(w io.Writer, s Style, list []*Context) error {
	return several(w, s, "ContextList", contextColumns, list, func(c *Context) string { return c.Name },
		func(c *Context) any { return c }, func(c *Context) *Context { return c })
}
