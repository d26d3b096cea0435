//go:build linux && cgo

package fork

// This file is used with cgo: init keeps its starter's memory, because the kernel writes into the C library's data of
// each thread. That memory includes the starter's command line, so a task can read it as init's command line.

const letsGoOfMemory = false
