package main

import "github.com/yi-json/synapse/server/unixsocket"

// This file serves local clients through the socket.

// openLocally serves the socket if there is an Authenticator, which identifies its peers. A failure to create the
// socket does not stop the scheduler, because clients can use the port.
func (s *scheduler) openLocally() {
	if s.authn == nil || !s.local || s.dataDir == "" {
		return
	}
	at, err := unixsocket.Listen(s.dataDir)
	if err != nil {
		s.log.Info("The local socket for root is not available: %v", err)
		return
	}
	go func() { _ = s.server.Serve(at) }() // ends with the server, which closes it
}
