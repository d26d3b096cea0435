//go:build linux && !cgo

package fork

// This file is used without cgo: init can release its starter's memory, because all threads and their stacks belong to
// Go.

const letsGoOfMemory = true
