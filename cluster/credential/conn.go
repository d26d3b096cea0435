package credential

// This file owns optional methods of a connection.

// Entrant is a connection that must be notified when its client has authenticated, such as those of server/connlimit.
type Entrant interface{ Entered() }

// HalfCloser is a connection of which one end can close its writing side and continue to read.
type HalfCloser interface{ CloseWrite() error }
