//go:build !unix

package parcel

// This file owns what an open is told elsewhere: nothing.

const nonblock = 0
