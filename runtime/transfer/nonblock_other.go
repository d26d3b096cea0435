//go:build !unix

package transfer

// This file has no open flag for systems other than Unix.

const nonblock = 0
