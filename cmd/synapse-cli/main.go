// Command synapse-cli is how people and scripts speak to a Synapse cluster. It owns the commands, their flags and their
// exit codes; the packages below it own requests and output. Installed as synctl it also takes that name's flags.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A failed write shows that the reader is gone, as in `| head`; the signal would end us with a code that looks like a
	// failure.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}
