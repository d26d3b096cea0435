//go:build linux && !cgo

package fork

// This file says that init may do without its starter's memory: all threads and their stacks are Go's own.

const letsGoOfMemory = true
