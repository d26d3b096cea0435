package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/topology"
)

// This file opens the store, and creates the IDs of the cluster and of jobs.

const (
	// databaseFile is the sqlite store in the data folder.
	databaseFile = "synapse.db"
	// clusterFile contained the cluster ID in older versions. Now the store contains it.
	clusterFile = "cluster-id"
	// memoryCluster is the ID of every cluster with a memory store. With a new ID at each start, nodes would
	// refuse the scheduler.
	memoryCluster = "c-memory"
	// openAgain is the pause before an unreachable database is tried again.
	openAgain = time.Second
)

// errTold means that a signal ended the process before it served.
var errTold = errors.New("stopped by a signal")

// open opens the store and reads the cluster ID.
func (s *scheduler) open(signals <-chan os.Signal) (err error) {
	switch {
	case s.shared():
		return s.openShared(signals)
	case s.options.store == storeMemory:
		s.store, s.cluster = store.NewMemory(), memoryCluster
		return nil
	}
	if err := unrestored(s.dataDir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	own, err := sqlite.Open(filepath.Join(s.dataDir, databaseFile))
	if err != nil {
		return err
	}
	s.store = own
	if s.cluster, err = s.inherit(own); err != nil {
		return errors.Join(err, own.Close())
	}
	return nil
}

// inherit takes the cluster ID from the file of older versions.
func (s *scheduler) inherit(from interface{ ClusterID(string) (string, error) }) (string, error) {
	path := filepath.Join(s.dataDir, clusterFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return from.ClusterID("c-" + random())
	}
	if err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	fresh := strings.TrimSpace(string(text))
	if fresh == "" {
		fresh = "c-" + random()
	}
	id, err := from.ClusterID(fresh)
	if err == nil {
		err = os.Remove(path)
	}
	return id, err
}

// openShared waits for an unreachable database. A scheduler that gave up would be missing when the database
// returns.
func (s *scheduler) openShared(signals <-chan os.Signal) error {
	for said := false; ; said = true {
		shared, err := postgres.Open(postgres.Options{URL: s.options.store, Lease: actors.DefaultConstants().Lease})
		if err == nil {
			s.store, s.lease = shared, shared
			if s.cluster, err = shared.ClusterID("c-" + random()); err == nil {
				return nil
			}
			err = errors.Join(err, shared.Close())
		}
		if !postgres.Unreachable(err) {
			return err
		}
		if !said {
			s.log.Info("The database cannot be reached, next try in %s: %v", openAgain, err)
		}
		select {
		case got := <-signals:
			s.log.Info("%s: stopping", got)
			return errTold
		case <-time.After(openAgain):
		}
	}
}

// newJobID returns a unique ID with 60 random bits. The first character is a letter, so that no program reads an ID
// as a number.
func newJobID() topology.JobID { return topology.JobID("j" + random()) }

// random returns 12 random characters.
func random() string { return strings.ToLower(rand.Text()[:12]) }
