//go:build linux && cgo && go1.26 && !go1.27 && !reexec

package fork

// This file says that init keeps its starter's memory: the kernel writes into what a C library gave it for each thread.
// The starter's command line lies there, too, so a task can read it as that of init.

const letsGoOfMemory = false
