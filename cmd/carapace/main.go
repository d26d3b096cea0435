//go:build linux

package main

// Command carapace runs containers from a shell. It defines the flags, the exit code and the texts on stderr.
// Package runtime/carapace creates the containers. The command itself never writes to the task's stdout.

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
)

const usage = `carapace runs a command in a container.

  carapace run [flags] -- COMMAND [ARGUMENT...]    run a command in --rootfs (default ./rootfs)
  carapace run COMMAND [ARGUMENT...]               run a command in ./rootfs
  carapace run --spec FILE [flags]                 run the container that a JSON file describes
  carapace check                                   show which limits this host can enforce
  carapace state [ID...]                           print the known containers as JSON
  carapace kill ID [SIGNAL]                        send a signal (default KILL, which ends every process)
  carapace gc                                      remove the leftovers of dead containers
  carapace --version                               print the version

Examples:
  carapace run --rootfs host --user alice --memory 2g --cpus 1.5 -- python3 train.py
  carapace run --rootfs /srv/images/busybox --pids 64 -- /bin/sh -c 'echo hello'

The exit code is the command's own, 128 + N if signal N killed it, 125 if the container could not be set up,
126 if the command cannot be executed, and 127 if the command is not found. "carapace run -h" lists the flags.
`

func main() {
	// This binary also supervises each task of an agent, because it is smaller than the agent's.
	if len(os.Args) > 1 && os.Args[1] == supervisor.SubCommand {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	if code, mine := carapace.Reexec(os.Args); mine {
		os.Exit(code)
	}
	os.Exit(dispatch(os.Args[1:]))
}

// codeUsage is the exit code for a wrong command line. run uses 125, because a task may exit with 2.
const codeUsage = 2

func dispatch(arguments []string) int {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return codeUsage
	}
	commands := map[string]func([]string) int{
		"run": run, "check": check, "state": state, "kill": kill, "gc": gc, sweepWord: sweepWhenAlone,
	}
	if command, known := commands[arguments[0]]; known {
		return command(arguments[1:])
	}
	switch arguments[0] {
	case "-h", "--help", "help":
		fmt.Print(usage)
		return 0
	case "--version", "version":
		fmt.Println("carapace", version())
		return 0
	}
	fmt.Fprintf(os.Stderr, "carapace: unknown command %q: use run, check, state, kill or gc\n", arguments[0])
	return codeUsage
}

// version returns the version of the module from which this program was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// stateFlags holds the flags of all commands: the folder of container states, and the cgroups.
type stateFlags struct {
	stateDir string
	cgroups  carapace.Cgroups
}

func (p *stateFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&p.stateDir, "state-dir", environment("CARAPACE_STATE_DIR", carapace.DefaultStateDir()),
		"`directory` for the state of containers")
	flags.StringVar(&p.cgroups.Root, "cgroup-root", environment("CARAPACE_CGROUP_ROOT", "/sys/fs/cgroup"),
		"`directory` of the cgroup mount")
	flags.StringVar(&p.cgroups.Parent, "cgroup-parent", environment("CARAPACE_CGROUP_PARENT", "/synapse"),
		"parent cgroup of the containers; a path without a leading slash is relative to carapace's own cgroup")
}

func environment(name, otherwise string) string {
	if value, set := os.LookupEnv(name); set {
		return value
	}
	return otherwise
}

// parse parses flags. done reports that the command must exit with code.
func parse(flags *flag.FlagSet, arguments []string, failed int) (code int, done bool) {
	flags.Usage = func() {} // Parse writes one line for a wrong flag instead of all flags.
	err := flags.Parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		fmt.Printf("%s [flags]\n", flags.Name())
		flags.PrintDefaults()
		return 0, true
	}
	return failed, err != nil
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "carapace: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return 1
}
