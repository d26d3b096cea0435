package credential

// This file owns what a connection may be able to do, beside what every connection can.

// Entrant is a connection that waits to hear that its client has proved who it is, as those of server/connlimit do.
type Entrant interface{ Entered() }

// HalfCloser is a connection of which one end can say that it sends no more, and goes on reading.
type HalfCloser interface{ CloseWrite() error }
