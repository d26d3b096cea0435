package slurmcmd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file implements `sacctmgr list` and `sshare`, which show the accounts that a user may name.

// associationFlags holds the options that sacctmgr and sshare share.
type associationFlags struct {
	format                   string
	users, accounts          []string
	noHeader, closed, parsed bool
	each                     bool // of all users
}

// shows prints the selected associations.
func (o *associationFlags) shows(a *CLI, usual string) error {
	columns, err := slurm.Named(cmp.Or(o.format, usual), "%", 10, slurm.AssociationFields())
	if err != nil {
		return err
	}
	delimit(columns, "|", o.closed, o.parsed)
	return a.With(func(ctx context.Context, c *client.Client) error {
		all, err := a.associations(ctx, c, o)
		if err != nil {
			return err
		}
		return table(a, !o.noHeader, "", columns, all)
	})
}

// fact prints the only row of a list. Other words select rows, and have no effect.
func (o *associationFlags) fact(a *CLI, words []string, usual, names string, row slurm.Fact) error {
	for _, word := range words {
		if key, value, has := strings.Cut(word, "="); has && strings.EqualFold(key, "format") {
			usual = value
		}
	}
	columns, err := slurm.Named(usual, "%", 10, slurm.FactFields(names))
	if err != nil {
		return err
	}
	delimit(columns, "|", o.closed, o.parsed)
	return table(a, !o.noHeader, "", columns, []slurm.Fact{row})
}

// associations returns the users with the accounts of their jobs and with the queues of the cluster.
func (a *CLI) associations(ctx context.Context, c *client.Client, o *associationFlags) ([]*slurm.Association, error) {
	me, err := a.me(ctx, c)
	if err != nil {
		return nil, err
	}
	users := o.users
	if len(users) == 0 && !o.each {
		users = []string{me}
	}
	seen := map[slurm.Association]bool{}
	note := func(user, account string) {
		meant := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
		if account != "" && meant(users, user) && meant(o.accounts, account) {
			seen[slurm.Association{User: user, Account: account}] = true
		}
	}
	jobs, err := a.accounts(ctx, c, &accountFlags{since: "1970-01-01T00:00", allUsers: true,
		choice: choice{Choice: query.Choice{Choice: command.Choice{Users: strings.Join(users, ",")}}}})
	if err != nil {
		return nil, err
	}
	for _, e := range jobs {
		note(e.User, e.Account)
	}
	partitions, err := a.partitions(ctx, c, "")
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		for _, user := range append(slices.Clone(users), me) {
			note(user, p.Name)
		}
	}
	return sortedAssociations(seen), nil
}

func sortedAssociations(seen map[slurm.Association]bool) (all []*slurm.Association) {
	for one := range seen { //order: sorted below
		all = append(all, &one)
	}
	slices.SortFunc(all, func(x, y *slurm.Association) int {
		return cmp.Or(strings.Compare(x.User, y.User), strings.Compare(x.Account, y.Account))
	})
	return all
}

// sacctmgr lists users, accounts and associations. It changes nothing, because accounts are labels of jobs.
func (a *CLI) sacctmgr(words []string) error {
	o := &associationFlags{}
	f := slurmFlags("sacctmgr")
	f.BoolVarP(&o.noHeader, "noheader", "n", false, "")
	f.BoolVarP(&o.closed, "parsable", "p", false, "")
	f.BoolVarP(&o.parsed, "parsable2", "P", false, "")
	if err := a.parse(f, words); err != nil {
		return err
	}
	words = f.Args()
	if len(words) < 2 || words[0] != "list" && words[0] != "show" {
		return exit.Hint("use list user, list account or list associations",
			"sacctmgr %s is not supported", strings.Join(words, " "))
	}
	entity := strings.TrimSuffix(strings.ToLower(words[1]), "s")
	switch entity {
	case "qo":
		return o.fact(a, words[2:], slurm.QOSUsual, slurm.QOSNames, slurm.OnlyQOS)
	case "cluster":
		return o.fact(a, words[2:], slurm.ClusterUsual, slurm.ClusterNames, slurm.OnlyCluster)
	}
	if !slices.Contains([]string{"user", "account", "acct", "association", "assoc"}, entity) {
		return exit.Hint("use list user, list account, list associations, list qos or list cluster",
			"listing %s is not supported", words[1])
	}
	o.each = entity != "user"
	for _, word := range words[2:] {
		key, value, has := strings.Cut(word, "=")
		list := slices.DeleteFunc(strings.Split(value, ","), func(one string) bool { return one == "" })
		switch key = strings.ToLower(key); {
		case key == "where" && !has:
		case key == "format":
			o.format = value
		case has && (key == "user" || key == "users" || key == "name" || key == "names") && entity != "account":
			o.users = list
		case has && strings.HasPrefix(key, "a") || has && strings.HasPrefix(key, "name"):
			o.accounts = list
		case has && strings.HasPrefix(key, "cluster"):
		case !has && entity == "user":
			o.users = append(o.users, word)
		case !has:
			o.accounts = append(o.accounts, word)
		default:
			return exit.Hint("use format=, user=, account= or cluster=", "%s= is not supported", key)
		}
	}
	return o.shows(a, slurm.ManagerUsual)
}

// sshare lists the accounts of a user. Shares and usage belong to queues: `synapse-cli get queues` shows them.
func (a *CLI) sshare(words []string) error {
	o := &associationFlags{}
	var users, accounts string
	var mine bool
	f := slurmFlags("sshare")
	f.VarP(slurm.List{To: &users}, "users", "u", "")
	f.VarP(slurm.List{To: &accounts}, "accounts", "A", "")
	f.BoolVarP(&mine, "Users", "U", false, "")
	f.BoolVarP(&o.each, "all", "a", false, "")
	f.BoolVarP(&o.noHeader, "noheader", "n", false, "")
	f.BoolVarP(&o.closed, "parsable", "p", false, "")
	f.BoolVarP(&o.parsed, "parsable2", "P", false, "")
	f.StringVarP(&o.format, "format", "o", "", "")
	if err := a.parse(f, words); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return refusedWord(f.Arg(0))
	}
	o.users, o.accounts = query.Words(users), query.Words(accounts)
	return o.shows(a, slurm.ShareUsual)
}
