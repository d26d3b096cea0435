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

// This file owns the keys of a cluster that lives on one machine. They are made for one life of it: whoever was let in
// by those of the last one is a stranger to the next. The root signs the scheduler's authority and is forgotten; it is
// on no disk. What is written lies in one folder that only the cluster's user may enter, and its nodes hide that folder
// from their tasks, which may run as the same user.

const (
	// Name is the cluster's, in its certificates.
	Name = "local"

	keysFolder      = "keys"
	schedulerFolder = "scheduler"
	secretsFolder   = "secrets"
	ownerFolder     = "owner"
)

// Keys is the folder of the person whose cluster it is; empty: it speaks plaintext.
func (c *Cluster) Keys() string {
	if c.o.Insecure {
		return ""
	}
	return c.keysOf(ownerFolder)
}

func (c *Cluster) keysOf(name string) string { return filepath.Join(c.o.Dir, keysFolder, name) }

// makeKeys replaces the keys that an earlier cluster left in the directory.
func (c *Cluster) makeKeys() error {
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

// certify makes the keys of a node or a person.
func (c *Cluster) certify(role identity.Role, name, folder string) error {
	made, err := c.authority.Certify(role, name, time.Now())
	if err != nil {
		return err
	}
	made.Dir = c.keysOf(folder)
	return made.Create()
}

// secure are the flags by which a program of the cluster proves itself.
func (c *Cluster) secure(folder string) []string {
	if c.o.Insecure {
		return nil
	}
	return []string{"--tls", c.keysOf(folder)}
}

// sealKey is the file of keys that seal secrets. It outlives the cluster's other keys, because jobs that wait do.
func (c *Cluster) sealKey() string { return filepath.Join(c.o.Dir, secretsFolder, secretseal.FileName) }

// hide is the flag for what no task of a node may see. The scheduler's records are among it: a task that runs as the
// cluster's user could read there what other jobs brought.
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
	w := csv.NewWriter(&list) // a path may have a comma in it
	err := w.Write(places)
	w.Flush()
	return []string{"--hide", strings.TrimSpace(list.String())}, err
}
