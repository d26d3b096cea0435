//go:build linux && !amd64

package carapace

// This file says that an architecture has no calls of its own to deny.

var privateCalls []uint32
