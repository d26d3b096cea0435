package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/election"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cluster/lease"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/server/connlimit"
	"github.com/yi-json/synapse/server/gateway"
	"github.com/yi-json/synapse/server/httpmux"
	"github.com/yi-json/synapse/server/secretseal"
	"github.com/yi-json/synapse/server/timeline"
	"github.com/yi-json/synapse/store"
)

// This file starts a scheduler, lets it lead, and ends it, in order.

// leaving limits a clean end. Connections that are still open then are cut.
const leaving = 4 * time.Second

// scheduler holds the parts of the process.
type scheduler struct {
	options
	log       *host.Log
	host      *host.Host
	store     store.Store
	lease     tenure // the lease in a shared store; nil: not shared
	cluster   string
	port      *store.Port
	connlimit *connlimit.Listener
	link      *link.Server
	gateway   *gateway.Gateway
	authn     *authn.Authenticator // nil: plaintext
	audit     *audit.Log           // nil: plaintext
	server    *grpc.Server
	httpmux   *httpmux.Mux
	leads     atomic.Pointer[gateway.Leader]
	keeper    atomic.Pointer[timeline.Keeper] // nil: the timeline is not written here
}

// tenure is the leader's lease, for which the schedulers of one store compete.
type tenure interface {
	election.Lease
	Resign(epoch uint64) error
}

// serve runs a scheduler until a signal or a permanent error.
func serve(o options) error {
	boundGrowth(0, time.Now())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	s := &scheduler{options: o, log: host.NewLogIn(o.logFormat, os.Stderr, o.debug)}
	if err := s.open(signals); errors.Is(err, errTold) {
		return nil
	} else if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return errors.Join(refusedAddress(o.listen, err), s.store.Close())
	}
	defer listener.Close()
	if s.advertise == "" {
		s.advertise = listener.Addr().String()
	}
	if err := s.build(listener); err != nil {
		return errors.Join(err, s.store.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !s.shared() {
		epoch, err := s.store.Lead(s.holder().String())
		if err != nil {
			return errors.Join(err, s.store.Close())
		}
		s.lead(ctx, epoch)
	}
	go giveBack(ctx, s.store, s.log)
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.connlimit) }()
	s.openLocally()
	if err := s.announce(listener.Addr()); err != nil {
		s.end(signals)
		return err
	}
	defer daemon.Ready()()
	defer s.reloading().Watch()()
	lost := make(chan error, 1)
	if s.shared() {
		go func() { lost <- s.campaign(ctx) }()
	}
	select {
	case got := <-signals:
		s.log.Info("%s: stopping", got)
		cancel()
		if s.shared() {
			s.settle(lost, signals)
		}
		s.end(signals)
		return nil
	case err = <-s.host.Ended():
	case err = <-lost:
	case err = <-served:
	}
	if s.shared() {
		return err // another scheduler may already lead, so this process sends nothing more
	}
	s.end(signals)
	return err
}

// reloading returns the reaction to SIGHUP: it applies the settings that can change, and reads the denylist
// immediately.
func (s *scheduler) reloading() daemon.Reloading {
	return daemon.Reloading{
		Prefix: twins, Fresh: reading, Log: s.log.Info,
		Live: map[string]func(string){"debug": func(text string) { s.log.SetDebug(text == "true") }},
		Also: func() {
			if s.authn != nil {
				s.authn.Recheck()
			}
		},
	}
}

// build creates the parts that a scheduler needs whether it leads or not. The link comes first, because it sets the
// address of the actor system.
func (s *scheduler) build(listener net.Listener) (err error) {
	s.leads.Store(&gateway.Leader{})
	s.host = host.New(s.log)
	address := ""
	if s.shared() { // nodes distinguish schedulers by it
		address = "scheduler-" + strings.NewReplacer("[", "", "]", "", "%", "-").Replace(s.advertise)
	}
	if err := s.shut(); err != nil {
		return err
	}
	toLink := link.Options{Address: address, Log: s.log, Count: s.host.Count}
	toGateway := gateway.Options{
		Store: s.store, Scripts: s.store, ClusterID: s.cluster, Version: daemon.Version(),
		Levels: s.levels, Past: s.pastKept,
		Log: s.log, Count: s.host.Count,
		Leader: func() gateway.Leader { return *s.leads.Load() },
	}
	if s.authn != nil {
		toLink.Certified, toGateway.Principal, toGateway.WhoAmI = authn.Node, authn.Principal, authn.WhoAmI
		toGateway.Machine = func(ctx context.Context) string {
			machine, _ := authn.Node(ctx) // on failure the name is empty, which no node has
			return machine.Name
		}
		toGateway.Passes, toGateway.WallMs = s.store, s.host.Clock().WallMs
		toGateway.Node = func(ctx context.Context) (string, error) {
			of, err := authn.Node(ctx)
			return of.Name, err
		}
		if toGateway.Sealer, err = s.sealer(); err != nil {
			return err
		}
	}
	s.link = link.NewServer(s.host.System(), toLink)
	toLimit := connlimit.Options{Log: s.log.Info, Count: s.host.Count}
	if s.authn != nil { // plaintext has no identities
		toLimit.Vain = connlimit.DefaultVain()
	}
	s.connlimit = connlimit.New(listener, toLimit)
	s.port = store.NewPort(s.store, s.host.System())
	toGateway.Peers = s.link
	s.gateway = gateway.New(s.host.System(), toGateway)
	s.httpmux = httpmux.New(httpmux.Options{Handler: s.pages(), Log: s.log.Info, Count: s.host.Count})
	s.server = grpc.NewServer(s.serverOptions()...)
	s.link.Register(s.server)
	if s.authn != nil {
		s.gateway.Register(s.authn.Services(s.server))
	} else {
		s.gateway.Register(s.server)
	}
	return nil
}

// serverOptions returns the options of the gRPC server. The gateway's come before the Authenticator's, so that a
// panic in either ends only its call.
func (s *scheduler) serverOptions() []grpc.ServerOption {
	if s.authn == nil {
		return slices.Concat(
			link.ServerOptions(s.httpmux.Credentials(insecure.NewCredentials())), s.gateway.ServerOptions())
	}
	creds := s.httpmux.Credentials(s.authn.Credentials())
	return slices.Concat(link.ServerOptions(creds), s.gateway.ServerOptions(), s.authn.ServerOptions())
}

// shut adds the Authenticator in front of all services, if TLS is used.
func (s *scheduler) shut() (err error) {
	if s.tls == "" {
		return nil
	}
	folder, external, err := s.keys()
	if err != nil {
		return fmt.Errorf("--tls: %w", err)
	}
	if s.audit, err = audit.Open(filepath.Join(s.dataDir, "audit"), time.Now, s.log.Info); err != nil {
		return err
	}
	var page authn.Page
	if s.page {
		page = authn.Page{Cert: s.pageCert, Key: s.pageKey}
	}
	issued, err := s.issued()
	if err != nil {
		return err
	}
	s.authn, err = authn.New(authn.Options{
		Page:  page,
		Audit: s.audit, Folder: folder, External: external, Log: s.log.Info, Count: s.host.Count,
		Pass: s.pass, Issued: issued, Allowed: s.owners.allowance(),
		Job: func(ctx context.Context, id string) (*messages.JobRecord, error) { return s.gateway.Job(ctx, id) },
	})
	if err != nil {
		return fmt.Errorf("--tls: %w", err)
	}
	s.log.Info("TLS is required; this scheduler is %s", s.authn.Identity())
	if err := s.audit.Share(s.authn.Identity().String(), daemon.Version(), heads{s.store}); err != nil {
		// A full disk stops changes, but not the start.
		s.log.Info("Not in the audit log: the start of this scheduler: %v", err)
	}
	return nil
}

// keys returns the scheduler's credentials: of its own authority, or of an outside issuer.
func (s *scheduler) keys() (folder *identity.Folder, external *identity.External, err error) {
	if identity.IsExternal(s.tls) {
		external, err = credential.ReadExternal(s.tls)
	} else {
		folder, err = identity.OpenFolder(s.tls)
	}
	return folder, external, err
}

// sealer returns the keys that encrypt secrets. A scheduler with a shared store creates none, because the others
// would not have them.
func (s *scheduler) sealer() (gateway.Sealer, error) {
	folder := s.tls
	if identity.IsExternal(folder) {
		folder = filepath.Dir(folder)
	}
	v := secretseal.New(cmp.Or(s.secretsKey, filepath.Join(folder, secretseal.FileName)))
	if !s.shared() {
		made, err := v.Make()
		if err != nil {
			return nil, fmt.Errorf("--secrets-key: %w", err)
		}
		if made {
			s.log.Info("A new key for job secrets was created in %s: back it up separately from the store",
				v.Path())
		}
	}
	switch err := v.Check(); {
	case errors.Is(err, os.ErrNotExist):
		s.log.Info("Jobs with secrets are refused and do not start: %s is missing; all schedulers of a store "+
			"share it", v.Path())
	case err != nil:
		return nil, fmt.Errorf("--secrets-key: %w", err)
	}
	return v, nil
}

// pass returns a user's token from the store. A damaged record admits nobody.
func (s *scheduler) pass(id string) (*messages.PassRecord, error) {
	p, err := s.store.Pass(id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) {
		return nil, nil
	}
	return p, err
}

func (s *scheduler) holder() lease.Holder {
	return lease.Holder{Address: s.advertise, Process: random()}
}

// campaign leads when this process gets the lease. It ends with ctx, or with the reason why this process must end.
func (s *scheduler) campaign(ctx context.Context) error {
	c := election.New(election.Options{Lease: s.lease, Options: lease.Options{
		Holder: s.holder(), Term: actors.DefaultConstants().Lease, Log: s.log,
		Follow: func(address string) {
			s.leads.Store(&gateway.Leader{Address: address})
			s.link.Follow(address)
		},
	}})
	reign, err := c.Stand(ctx)
	if err != nil {
		return nil // the process is ending
	}
	s.log.Info("This scheduler leads now (epoch %d)", reign.Epoch)
	s.lead(ctx, reign.Epoch)
	return c.Hold(ctx, reign)
}

// lead creates the actors. A process leads at most once: when it loses the lease, it ends.
func (s *scheduler) lead(ctx context.Context, epoch uint64) {
	s.log.SetEpoch(epoch)
	leader.Assemble(leader.Ports{
		Ports: actors.Ports{
			System: s.host.System(), Host: s.host, Clock: s.host.Clock(), Log: s.log, Constants: actors.DefaultConstants(),
			Aside: host.NewAside(), Ahead: host.Ahead,
		},
		Epoch: epoch, ClusterID: s.cluster, Levels: s.levels, Store: s.port, Peers: s.link, AcceptLoss: s.acceptLoss,
		NewJobID: newJobID, UIDs: s.uids, Owners: s.owners.limits(), Calls: actors.Tagged{To: s.log, Tag: actors.TagCalls},
		Settings: s.policy, Passed: s.traces(ctx), Unwritable: s.gateway.Unwritable,
	})
	s.link.Lead(epoch)
	s.noteLead(epoch)
	s.leads.Store(&gateway.Leader{Here: true, Epoch: epoch})
	r := election.Retention{Store: s.store, Keep: s.keepFinished, WallMs: s.host.Clock().WallMs, Log: s.log}
	go r.Run(ctx, epoch)
	s.keepPast(ctx)
	s.notifies(ctx)
}

// noteLead writes to the audit log that this scheduler leads, with the previous leader and the heads of all
// schedulers' audit logs.
func (s *scheduler) noteLead(epoch uint64) {
	if s.audit == nil {
		return
	}
	if err := s.audit.Lead(epoch, s.leads.Load().Address); err != nil {
		s.log.Info("Not in the audit log: this scheduler leads in epoch %d: %v", epoch, err)
	}
}

// announce publishes the scheduler's address after it is reachable.
func (s *scheduler) announce(at net.Addr) error {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return err
	}
	s.log.Info("Synapse Master running on :%s...", port)
	if s.authn == nil {
		s.log.Info("INSECURE: without --tls, every client that reaches %s controls all nodes", at)
	}
	if ip, is := at.(*net.TCPAddr); is && ip.IP.IsLoopback() {
		s.log.Info("Listening on %s, which only this host can reach; --listen sets another address", at)
	}
	if s.listenFile == "" {
		return nil
	}
	whole := s.listenFile + ".new" // a reader never sees an incomplete file
	if err := os.WriteFile(whole, []byte(at.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("--listen-file: %w", err)
	}
	return os.Rename(whole, s.listenFile)
}

// settle waits until the campaign has ended, so that a lease that was just obtained is released.
func (s *scheduler) settle(campaign <-chan error, signals <-chan os.Signal) {
	select {
	case <-campaign:
	case <-signals:
	case <-time.After(leaving / 2): // the database hangs, and the lease will expire
	}
}

// end releases clients and nodes, then the lease, then the store. A second signal, or a stream that hangs, ends the
// process at once. Acknowledged changes are never only in memory.
func (s *scheduler) end(signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.gateway.Close()
		s.link.Close()
		s.httpmux.Close()
		if s.authn != nil {
			s.authn.Close()
		}
		if s.audit != nil {
			s.audit.KeepHead() // the next leader writes this head into its audit log
		}
		s.resign()
		s.server.GracefulStop()
		if s.audit != nil {
			if err := s.audit.Close(); err != nil {
				s.log.Info("Closing the audit log failed: %v", err)
			}
		}
		s.port.Close()
		if err := s.store.Close(); err != nil {
			s.log.Info("Closing the store failed: %v", err)
		}
	}()
	select {
	case <-done:
	case <-signals:
	case <-time.After(leaving):
		s.log.Info("A stream did not end within %s and was cut", leaving)
	}
	s.server.Stop()
}

// resign releases the lease, so that no scheduler has to wait for its expiry.
func (s *scheduler) resign() {
	if now := s.leads.Load(); s.shared() && now.Here {
		if err := s.lease.Resign(now.Epoch); err != nil {
			s.log.Info("The lease was not released, and another scheduler leads when it expires: %v", err)
		}
	}
}

// refusedAddress returns a one-line error for an address on which the scheduler cannot listen.
func refusedAddress(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s: the port is in use by another process", address)
	}
	return fmt.Errorf("--listen %s: %w", address, err)
}
