//go:build linux && cgo

package fork

// This file says that init keeps its starter's memory: the kernel writes into what a C library gave it for each thread.
// The starter's command line lies there, too, so a task can read it as that of init.

const letsGoOfMemory = false
