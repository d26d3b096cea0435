package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/runtime/machine"
)

// This file manages the node's certificate and renews it. Without --tls, the node has none and uses plaintext.

// badge opens the certificate, and returns the node's name in the cluster: the name in the certificate, the given
// one, or a generated one.
func (o *options) badge(me *machine.Machine, log actors.Log) (*credential.Badge, string, error) {
	if o.tls == "" {
		return nil, cmp.Or(o.id, me.NodeID()), nil
	}
	if err := o.enter(me, log); err != nil {
		return nil, "", err
	}
	badge, err := credential.OpenBadge(o.tls, identity.RoleNode)
	if err != nil {
		return nil, "", fmt.Errorf("--tls: %w", err)
	}
	name := badge.Identity().Name
	if o.id != "" && o.id != name {
		return nil, "", fmt.Errorf("--id %s: the certificate in %s belongs to node %s", o.id, o.tls, name)
	}
	return badge, name, nil
}

// maxToken limits the size of a join token.
const maxToken = 4 << 10

// enter creates the folder of --tls with a join token. The key is created on this host and stays here. If the
// folder exists, the node has joined before, and its token is used up.
func (o *options) enter(me *machine.Machine, log actors.Log) error {
	if _, err := os.Stat(o.tls); o.token == "" || err == nil {
		return nil
	}
	from := os.Stdin
	if o.token != "-" {
		file, err := os.Open(o.token)
		if err != nil {
			return fmt.Errorf("--token: %w", err)
		}
		defer file.Close()
		from = file
		if warning := identity.Exposed(o.token); warning != "" {
			log.Warn("--token: %s", warning)
		}
	}
	text, err := io.ReadAll(io.LimitReader(from, maxToken))
	if err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	joiner := credential.Joiner{Name: o.id, Otherwise: me.NodeID(), Machine: me.MachineID()}
	folder, err := credential.JoinAgain(context.Background(), string(text), o.join, joiner, log.Info)
	if err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	folder.Dir = o.tls
	return folder.Create()
}

// shown returns the credentials of each connection.
func shown(badge *credential.Badge) credentials.TransportCredentials {
	if badge == nil {
		return credential.Plain(nil)
	}
	return badge.Credentials(nil)
}

// keep renews the certificate until end is called.
func (o *options) keep(badge *credential.Badge, log actors.Log) (end func()) {
	if badge == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { badge.Keep(ctx, o.join, log.Info) })
	return func() {
		cancel()
		running.Wait()
	}
}
