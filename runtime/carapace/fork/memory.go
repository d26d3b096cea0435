//go:build linux && !cgo && go1.26 && !go1.27 && !reexec

package fork

// This file says that init may do without its starter's memory: all threads and their stacks are Go's own.

const letsGoOfMemory = true
