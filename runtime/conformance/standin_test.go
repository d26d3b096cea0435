//go:build linux

package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// This file imitates the small carapace from which this project's carapace developed. It prints its help, and does the
// known work of its inner half. It shows that the driver works with such a program. Only a run with the original tests
// the original:
//
//	go test ./runtime/conformance -run Upstream -upstream /path/to/carapace

// upstreamBinary is the original program, if given.
var upstreamBinary = flag.String("upstream", "", "the other carapace itself, instead of what stands in for it")

// standInNoise is its output before that of the command.
var standInNoise = []string{
	"Child (PID: 1): Entering container...\n", "Child: Entering chroot jail...\n", "Child: Mounting /proc...\n",
}

const standInHelp = `Usage: carapace <COMMAND>

Commands:
  run    
  child  
  help   Print this message or the help of the given subcommand(s)

Options:
  -h, --help  Print help
`

// standIn runs the imitation if the arguments request it.
func standIn(arguments []string) (code int, mine bool) {
	switch {
	case len(arguments) == 2 && arguments[1] == "--help":
		fmt.Print(standInHelp)
		return 0, true
	case len(arguments) > 3 && arguments[1] == "child" && arguments[2] == "--":
		fmt.Println("Error:", standInChild(arguments[3:]))
		return 1, true
	}
	return 0, false
}

// standInChild sets the hostname, changes its root, mounts /proc and executes the command, which it searches in PATH.
func standInChild(command []string) error {
	said := 0
	say := func() error {
		fmt.Print(standInNoise[said])
		said++
		return nil
	}
	for _, step := range []func() error{
		say,
		func() error { return unix.Sethostname([]byte("carapace-container")) },
		say,
		func() error { return unix.Chroot("rootfs") },
		func() error { return unix.Chdir("/") },
		say,
		func() error { return unix.Mount("proc", "/proc", "proc", 0, "") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, command, os.Environ())
}
