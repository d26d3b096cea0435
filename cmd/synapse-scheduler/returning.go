package main

import (
	"net/netip"
	"runtime/debug"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/server/connlimit"
	"github.com/yi-json/synapse/store"
)

// This file owns how a scheduler lets its nodes come back: what stands before the port, and the addresses of nodes that
// come before strangers there.

// connlimitOptions are those of what stands before the port.
func (s *scheduler) connlimitOptions() connlimit.Options {
	o := connlimit.Options{Log: s.log.Info, Count: s.host.Count, Calm: debug.FreeOSMemory}
	if s.authn == nil {
		o.Vain = connlimit.Free()
	}
	return o
}

// introducing is a store that tells the port of the nodes' addresses when a leader loads them. So they are known when
// the scheduler starts, which is when all nodes come back at once.
type introducing struct {
	store.Store
	known func(...netip.Addr)
}

// Load is the store's.
func (i introducing) Load(epoch uint64) (*actors.Loaded, error) {
	loaded, err := i.Store.Load(epoch)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, n := range loaded.Nodes {
		if address, err := netip.ParseAddr(n.GetAnnouncement().GetAddress()); err == nil {
			addresses = append(addresses, address)
		}
	}
	i.known(addresses...)
	return loaded, nil
}
