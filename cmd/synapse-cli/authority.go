package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/server/secretseal"
)

// This file implements `init` and `certify`, which create the keys of a cluster. They use only files, not a
// scheduler.

const (
	rootFolder      = "root"
	schedulerFolder = "scheduler"
)

// keysFlags holds the flags of `init` and `certify`.
type keysFlags struct {
	cluster, admin string
	schedulers     []string
	by, out        string
}

func (a *app) initCommand() *cobra.Command {
	k := &keysFlags{}
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "create the keys of a cluster with TLS",
		Long: "Creates the keys and certificates of a cluster, in folders below DIR:\n\n" +
			"  root         Signs the authorities of schedulers. Only `certify scheduler` needs it.\n" +
			"               Move it to a host outside of the cluster.\n" +
			"  scheduler    For synapse-scheduler --tls. Several schedulers get one folder each: scheduler-NAME.\n" +
			"  admin        For synapse-cli --tls, or SYNAPSE_TLS.\n\n" +
			"Use `certify` for nodes and additional users. Only the user who runs this command can read the keys.",
		Example: "  synapse-cli init keys\n" +
			"  synapse-cli init research --schedulers head1,head2 --admin ada",
		Args: named("folder", "keys", 1),
		RunE: func(_ *cobra.Command, args []string) error { return a.initKeys(k, args[0]) },
	}
	f := c.Flags()
	f.StringVar(&k.cluster, "cluster", "", "`name` of the cluster (default: the name of the folder)")
	f.StringSliceVar(&k.schedulers, "schedulers", nil, "`names` of the schedulers, if there are several")
	f.StringVar(&k.admin, "admin", "admin", "`name` of the first admin")
	return c
}

func (a *app) initKeys(k *keysFlags, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return exit.Hint("use a new or empty folder", "%s is not empty", dir)
	}
	cluster, now := k.cluster, time.Now()
	if cluster == "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		cluster = filepath.Base(absolute)
	}
	pair, err := identity.NewRoot(cluster, now)
	if err != nil {
		return exit.Hint("use --cluster to name the cluster", "%s", err)
	}
	root := &identity.Folder{Dir: filepath.Join(dir, rootFolder), Roots: pair.Chain, Pair: pair}
	made := []*identity.Folder{root}
	schedulers := k.schedulers
	if len(schedulers) == 0 {
		schedulers = []string{schedulerFolder}
	}
	for _, name := range schedulers {
		folder := schedulerFolder
		if len(k.schedulers) > 0 {
			folder += "-" + name
		}
		one, err := root.Certify(identity.RoleScheduler, name, now)
		if err != nil {
			return exit.Usage("%s", err)
		}
		one.Dir = filepath.Join(dir, folder)
		made = append(made, one)
	}
	admin, err := made[1].Certify(identity.RoleAdmin, k.admin, now)
	if err != nil {
		return exit.Usage("%s", err)
	}
	admin.Dir = filepath.Join(dir, "admin")
	for _, one := range append(made, admin) {
		if err := one.Create(); err != nil {
			return err
		}
	}
	if _, err := secretseal.New(filepath.Join(root.Dir, secretseal.FileName)).Make(); err != nil {
		return err
	}
	for _, one := range made[1:] {
		if err := shareKeys(root.Dir, one); err != nil {
			return err
		}
	}
	a.say("The keys of cluster %s are in %s. Move %s to a safe place outside the cluster.", cluster, dir, root.Dir)
	a.say("Next: synapse-scheduler --listen ADDRESS:9000 --tls %s", made[1].Dir)
	a.say("Then create a token for each node: synapse-cli token create --by %s --node-name NAME", made[1].Dir)
	return nil
}

// shareKeys copies the keys that encrypt secrets to a new scheduler, because all schedulers of a cluster need the
// same keys. The folder of an older version has none.
func shareKeys(from string, to *identity.Folder) error {
	keys, err := os.ReadFile(filepath.Join(from, secretseal.FileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return to.Write(secretseal.FileName, keys)
}

func (a *app) certifyCommand() *cobra.Command {
	k := &keysFlags{}
	roles := []string{string(identity.RoleNode), string(identity.RoleScheduler)}
	for _, role := range identity.People {
		roles = append(roles, string(role))
	}
	c := &cobra.Command{
		Use:   "certify ROLE NAME",
		Short: "create a key and certificate for a node, user or additional scheduler",
		Long: "Creates a private key and a certificate in a new folder. Move this folder to the node, user or\n" +
			"scheduler that the certificate names. --by is the folder of a scheduler for nodes and users, and the\n" +
			"root folder for additional schedulers. The certificate of a node is valid for one day, and the\n" +
			"node's agent renews it. The certificate of a user is valid for 90 days. Jobs that are submitted with\n" +
			"this certificate belong to the user. The roles of users are admin, operator (manages nodes and all\n" +
			"jobs), submitter (manages own jobs) and viewer. `synapse-cli whoami` shows the permissions of a\n" +
			"user.",
		Example: "  synapse-cli certify node n17 --by keys/scheduler --out n17\n" +
			"  synapse-cli certify submitter ada --by keys/scheduler --out ada\n" +
			"  synapse-cli certify scheduler head2 --by keys/root --out head2",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return exit.Hint("run `synapse-cli certify node n17 --by keys/scheduler`", "ROLE or NAME is missing")
			case !slices.Contains(roles, args[0]):
				return exit.Hint(strings.Join(roles, ", "), "unknown role %q", args[0])
			case k.by == "":
				return exit.Hint("use a scheduler's folder to sign nodes and users, the root folder to sign schedulers",
					"--by is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.certify(k, identity.Role(args[0]), args[1]) },
	}
	f := c.Flags()
	f.StringVar(&k.by, "by", "", "`folder` of the scheduler or the root, which signs the certificate")
	f.StringVar(&k.out, "out", "", "`folder` to create (default: NAME)")
	return c
}

func (a *app) certify(k *keysFlags, role identity.Role, name string) error {
	by, err := identity.OpenFolder(k.by)
	if err != nil {
		return exit.Hint("use a folder created by `synapse-cli init`", "--by: %s", err)
	}
	made, err := by.Certify(role, name, time.Now())
	if err != nil {
		return exit.Usage("%s", err)
	}
	made.Dir = cmp.Or(k.out, name)
	if err := made.Create(); err != nil {
		return err
	}
	who, err := made.Identity()
	if err != nil {
		return err
	}
	if role == identity.RoleScheduler {
		if err := shareKeys(k.by, made); err != nil {
			return err
		}
	}
	if role == identity.RoleNode { // a previous key with this name is no longer valid
		key, err := identity.DigestOf(made.Pair.Leaf().PublicKey)
		if err != nil {
			return err
		}
		if err := credential.Bind(by, name, key); err != nil {
			return err
		}
	}
	a.say("%s is in %s, valid until %s", who, made.Dir, a.local(expiry(made.Pair.Leaf().NotAfter)))
	return nil
}
