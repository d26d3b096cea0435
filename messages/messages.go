// Package messages defines all data that crosses a network link, arrives from a client or is written to a disk. It has
// the messages that are generated from the .proto files, their checks (Validate) and their limits. It imports no
// package of this module except topology.
package messages
