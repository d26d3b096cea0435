//go:build !linux

package unixsocket

import (
	"context"
	"errors"
	"net"
)

// This file replaces the socket on systems whose kernel does not report the peer's user.

var errElsewhere = errors.New("the local socket of a scheduler requires Linux")

// Dial always fails.
func Dial(context.Context, string) (net.Conn, error) { return nil, errElsewhere }

// Mine always returns false.
func Mine(string) bool { return false }
