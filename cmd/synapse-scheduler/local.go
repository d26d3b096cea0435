package main

import "github.com/yi-json/synapse/server/unixsocket"

// This file owns the way in on the scheduler's own machine.

// openLocally serves the socket, where there is a gate that knows who comes by it. What keeps it from being made stops
// no scheduler: the port is there.
func (s *scheduler) openLocally() {
	if s.authn == nil || !s.local || s.dataDir == "" {
		return
	}
	at, err := unixsocket.Listen(s.dataDir)
	if err != nil {
		s.log.Info("The local socket for root is not available: %v", err)
		return
	}
	go func() { _ = s.server.Serve(at) }() // it ends with the server, which closes it
}
