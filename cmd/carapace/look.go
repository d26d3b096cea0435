//go:build linux

package main

// This file implements the commands that inspect or clean up containers: check, state, kill, gc.

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// open parses the flags of a command that has only the shared ones.
func open(name string, arguments []string) (at stateFlags, rest []string, code int, done bool) {
	flags := flag.NewFlagSet("carapace "+name, flag.ContinueOnError)
	at.register(flags)
	code, done = parse(flags, arguments, codeUsage)
	return at, flags.Args(), code, done
}

func printJSON(value any) int {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return complain(err)
	}
	return 0
}

func check(arguments []string) int {
	at, _, code, done := open("check", arguments)
	if done {
		return code
	}
	return printJSON(append(carapace.Check(at.cgroups), checkLandlock(),
		carapace.IDsAt(filepath.Dir(at.stateDir)), carapace.Composes(), carapace.PolicyOf(at.stateDir),
		carapace.NetworksOf(at.stateDir)))
}

// checkLandlock checks the requirements of tasks without containers, for agents that run plain processes.
func checkLandlock() carapace.Finding {
	finding := carapace.Finding{Name: supervisor.LandlockFinding}
	version, err := supervisor.Landlock()
	if err != nil {
		finding.Reason = err.Error()
		return finding
	}
	finding.OK, finding.Reason = true, fmt.Sprintf("version %d, for plain processes", version)
	if lacks := supervisor.LandlockLacks(version); len(lacks) > 0 {
		finding.Reason += "; " + strings.Join(lacks, "; ")
	}
	return finding
}

func state(arguments []string) int {
	at, ids, code, done := open("state", arguments)
	if done {
		return code
	}
	states, err := carapace.List(at.stateDir)
	if err != nil {
		return complain(err)
	}
	if len(ids) > 0 {
		states = slices.DeleteFunc(states, func(state carapace.State) bool { return !slices.Contains(ids, state.ID) })
		if len(states) < len(ids) {
			complain(fmt.Errorf("%w", carapace.ErrNotFound))
			code = 1
		}
	}
	if states == nil {
		states = []carapace.State{}
	}
	return max(code, printJSON(states))
}

func kill(arguments []string) int {
	at, rest, code, done := open("kill", arguments)
	if done {
		return code
	}
	if len(rest) < 1 || len(rest) > 2 {
		fmt.Fprintln(os.Stderr, "carapace: kill takes an ID and, if it is not KILL, a signal")
		return codeUsage
	}
	signal := unix.SIGKILL
	if len(rest) == 2 {
		if signal = signalOf(rest[1]); signal == 0 {
			fmt.Fprintf(os.Stderr, "carapace: %.40q is not a signal\n", rest[1])
			return codeUsage
		}
	}
	if err := carapace.SignalID(at.stateDir, rest[0], signal); err != nil {
		return complain(err)
	}
	return 0
}

// signalOf parses TERM, SIGTERM or 15. It returns 0 for an invalid signal.
func signalOf(text string) syscall.Signal {
	if number, err := strconv.Atoi(text); err == nil && number > 0 && number <= 64 {
		return syscall.Signal(number)
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))
}

func gc(arguments []string) int {
	at, _, code, done := open("gc", arguments)
	if done {
		return code
	}
	swept, err := carapace.GC(at.stateDir, at.cgroups)
	for _, id := range swept {
		fmt.Println(id)
	}
	if err != nil {
		return complain(err)
	}
	return 0
}
