package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/gateway"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/topology"
)

// This file owns the order in which a scheduler comes to life and ends.

// leaving bounds a clean end; what still hangs then is cut.
const leaving = 4 * time.Second

// heapGrowth lets the heap grow to five times what lives before it is
// collected: the live heap of a scheduler is small, and a fifth of a gang's
// cost was the collector's.
const heapGrowth = 400

// scheduler is the process's parts, for their end.
type scheduler struct {
	options
	log     *host.Log
	host    *host.Host
	store   store.Store
	port    *store.Port
	link    *link.Server
	gateway *gateway.Gateway
	server  *grpc.Server
}

// serve runs a scheduler until a signal, or until it may not go on.
func serve(o options) error {
	debug.SetGCPercent(heapGrowth)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return refusedAddress(o.listen, err)
	}
	defer listener.Close()
	s := &scheduler{options: o, log: host.NewLog(os.Stderr, o.debug)}
	if err := s.open(); err != nil {
		return err
	}
	if err := s.lead(); err != nil {
		return errors.Join(err, s.store.Close())
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	if err := s.announce(listener.Addr()); err != nil {
		s.end(signals)
		return err
	}
	select {
	case got := <-signals:
		s.log.Info("%s: ending", got)
		s.end(signals)
		return nil
	case err = <-s.host.Ended():
	case err = <-served:
	}
	s.end(signals)
	return err
}

// open opens the store and learns which cluster it is of.
func (s *scheduler) open() (err error) {
	if s.options.store == storeMemory {
		s.store = store.NewMemory()
		return nil
	}
	if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	s.store, err = sqlite.Open(filepath.Join(s.dataDir, "synapse.db"))
	return err
}

// lead takes leadership and assembles the actors. The link comes before them,
// because it gives the system its address.
func (s *scheduler) lead() error {
	cluster, err := s.clusterID()
	if err != nil {
		return err
	}
	holder, err := os.Hostname()
	if err != nil {
		holder = "unknown"
	}
	epoch, err := s.store.Lead(fmt.Sprintf("%s/%d", holder, os.Getpid()))
	if err != nil {
		return err
	}
	s.host = host.New(s.log)
	s.link = link.NewServer(s.host.System(), link.Options{ClusterID: cluster, Log: s.log, Count: s.host.Count})
	s.port = store.NewPort(s.store, s.host.System())
	s.gateway = gateway.New(s.host.System(), gateway.Options{
		Peers: s.link, Store: s.store, ClusterID: cluster, Version: daemon.Version(), Levels: s.levels, Log: s.log, Count: s.host.Count,
		Leader: func() gateway.Leader { return gateway.Leader{Here: true, Epoch: epoch} },
	})
	s.server = grpc.NewServer(append(link.ServerOptions(nil), s.gateway.ServerOptions()...)...)
	remote.RegisterRemotingServer(s.server, s.link)
	s.gateway.Register(s.server)

	actors.Assemble(actors.Ports{
		System: s.host.System(), Host: s.host, Clock: s.host.Clock(), Log: s.log, Constants: actors.DefaultConstants(),
		Leader: &actors.LeaderPorts{
			Epoch: epoch, ClusterID: cluster, Levels: s.levels, Store: s.port, Peers: s.link, NewJobID: newJobID,
		},
	})
	s.link.Lead(epoch)
	return nil
}

// announce says where the scheduler is, once it can be reached.
func (s *scheduler) announce(at net.Addr) error {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return err
	}
	s.log.Info("Synapse Master running on :%s...", port)
	if s.listenFile == "" {
		return nil
	}
	whole := s.listenFile + ".new" // a reader never sees half an address
	if err := os.WriteFile(whole, []byte(at.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("--listen-file: %w", err)
	}
	return os.Rename(whole, s.listenFile)
}

// end lets go of clients and machines, then of the store. A second signal, or a
// stream that hangs, ends the process at once: nothing that was acknowledged is
// only in memory.
func (s *scheduler) end(signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.gateway.Close()
		s.link.Close()
		s.server.GracefulStop()
		s.port.Close()
		if err := s.store.Close(); err != nil {
			s.log.Info("closing the store: %v", err)
		}
	}()
	select {
	case <-done:
	case <-signals:
	case <-time.After(leaving):
		s.log.Info("a stream did not end within %s: cut", leaving)
	}
	s.server.Stop()
}

// refusedAddress says in one line why an address cannot be listened on.
func refusedAddress(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s: the port is in use by another process", address)
	}
	return fmt.Errorf("--listen %s: %w", address, err)
}

// clusterID is made once and kept beside the records.
func (s *scheduler) clusterID() (string, error) {
	if s.options.store == storeMemory {
		return "c-" + random(), nil
	}
	path := filepath.Join(s.dataDir, "cluster-id")
	text, err := os.ReadFile(path)
	switch {
	case err == nil && strings.TrimSpace(string(text)) != "":
		return strings.TrimSpace(string(text)), nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	id := "c-" + random()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	return id, nil
}

// newJobID makes an id nobody had before: 60 random bits. The first character
// is a letter, so that no reader takes an id for a number.
func newJobID() topology.JobID { return topology.JobID("j" + random()) }

// random is 12 characters that nobody had before.
func random() string { return strings.ToLower(rand.Text()[:12]) }
