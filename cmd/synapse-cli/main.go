// Command synapse-cli is the command line of Synapse for users and scripts. It defines the commands, their flags
// and exit codes; the packages below it make the requests and the output. Installed as synctl, it also accepts the
// flags of the original synctl.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A failed write reports a closed pipe, as in `| head`. The signal would end the process with a code that
	// looks like a failure.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}
