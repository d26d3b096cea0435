//go:build linux

package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// This file owns the stand-in for the small carapace that this project's grew out of: it has its help, and does what
// its inner half is known to do. It shows that the driver drives such a program; about that very one tells only a run
// with it:
//
//	go test ./runtime/conformance -run Upstream -upstream /path/to/carapace

// upstreamBinary is taken where it is given.
var upstreamBinary = flag.String("upstream", "", "the other carapace itself, instead of what stands in for it")

// standInNoise is what it tells on the task's own output before the command runs.
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

// standIn does what the arguments ask of it, if they do.
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

// standInChild names the host, changes its root, mounts /proc and becomes the command, which it looks for in PATH.
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
