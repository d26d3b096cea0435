//go:build linux

package local

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/secretseal"
)

// This file creates the keys of a local cluster. The root signs the scheduler's authority and is then forgotten,
// without being stored. The authority is kept across runs in the same folder, so that the certificates of people stay
// valid. The other keys are new in each run. All keys are in one folder that only the cluster's user may enter. The
// nodes hide this folder from their tasks, which may run as the same user.

const (
	// Name is the name of the cluster in its certificates.
	Name = "local"

	keysFolder      = "keys"
	schedulerFolder = "scheduler"
	secretsFolder   = "secrets"
	ownerFolder     = "owner"
)

// Keys returns the folder of the owner's certificate, or "" if the cluster uses plaintext.
func (c *Cluster) Keys() string {
	if c.o.Insecure {
		return ""
	}
	return c.keysOf(ownerFolder)
}

func (c *Cluster) keysOf(name string) string { return filepath.Join(c.o.Dir, keysFolder, name) }

// makeKeys replaces the keys of an earlier run in the folder, except its authority.
func (c *Cluster) makeKeys() error {
	if c.keepAuthority() {
		if err := c.removeKeys(); err != nil {
			return err
		}
		return c.certify(identity.RoleAdmin, c.o.Owner, ownerFolder)
	}
	if err := os.RemoveAll(filepath.Join(c.o.Dir, keysFolder)); err != nil || c.o.Insecure {
		return err
	}
	root, err := identity.NewRoot(Name, time.Now())
	if err != nil {
		return err
	}
	by := &identity.Folder{Roots: root.Chain, Pair: root}
	if c.authority, err = by.Certify(identity.RoleScheduler, "scheduler", time.Now()); err != nil {
		return err
	}
	c.authority.Dir = c.keysOf(schedulerFolder)
	return errors.Join(c.authority.Create(), c.certify(identity.RoleAdmin, c.o.Owner, ownerFolder))
}

// keepAuthority takes the authority of an earlier run in the folder, unless it is missing, damaged, or expires soon.
func (c *Cluster) keepAuthority() bool {
	if c.o.Insecure {
		return false
	}
	kept, err := identity.OpenFolder(c.keysOf(schedulerFolder))
	if err != nil || kept.Pair == nil {
		return false
	}
	who, err := kept.Identity()
	if err != nil || who.Cluster != Name || who.Role != identity.RoleAuthority ||
		!time.Now().Before(identity.RenewAt(kept.Pair.Leaf())) {
		return false
	}
	c.authority = kept
	return true
}

// removeKeys removes the keys of an earlier run, except its authority.
func (c *Cluster) removeKeys() error {
	entries, err := os.ReadDir(filepath.Join(c.o.Dir, keysFolder))
	for _, entry := range entries {
		if entry.Name() != schedulerFolder {
			err = errors.Join(err, os.RemoveAll(c.keysOf(entry.Name())))
		}
	}
	return err
}

// certify creates the key and certificate of a node or user.
func (c *Cluster) certify(role identity.Role, name, folder string) error {
	made, err := c.authority.Certify(role, name, time.Now())
	if err != nil {
		return err
	}
	made.Dir = c.keysOf(folder)
	return made.Create()
}

// secure returns the TLS flags of a program of the cluster.
func (c *Cluster) secure(folder string) []string {
	if c.o.Insecure {
		return nil
	}
	return []string{"--tls", c.keysOf(folder)}
}

// sealKey returns the path of the keys that encrypt secrets. They are kept across runs, because waiting jobs need
// them.
func (c *Cluster) sealKey() string { return filepath.Join(c.o.Dir, secretsFolder, secretseal.FileName) }

// hide returns the flag for the folders that tasks must not see. They include the scheduler's records. A task that
// runs as the cluster's user could otherwise read the data of other jobs.
func (c *Cluster) hide() ([]string, error) {
	places := []string{filepath.Join(c.o.Dir, schedulerFolder)}
	if !c.o.Insecure {
		places = append(places, filepath.Join(c.o.Dir, keysFolder), filepath.Dir(c.sealKey()))
	}
	for _, place := range places {
		if err := os.MkdirAll(place, 0o700); err != nil {
			return nil, err
		}
	}
	var list strings.Builder
	w := csv.NewWriter(&list) // a path may contain a comma
	err := w.Write(places)
	w.Flush()
	return []string{"--hide", strings.TrimSpace(list.String())}, err
}
