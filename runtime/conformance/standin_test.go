//go:build linux

package conformance

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// This file owns the stand-in for the small carapace that this project's grew out of: it has its help, and does what its
// inner half is known to do. It shows that the driver drives such a program, and nothing about that very one.

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
	fmt.Printf("Child (PID: %d): Entering container...\n", os.Getpid())
	for _, step := range []func() error{
		func() error { return unix.Sethostname([]byte("carapace-container")) },
		func() error { return unix.Chroot("rootfs") },
		func() error { return unix.Chdir("/") },
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
