//go:build !unix

package transfer

// This file owns what an open is told elsewhere: nothing.

const nonblock = 0
