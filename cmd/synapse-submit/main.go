// Command synapse-submit is a small program that starts faster than synapse-cli. It submits batch scripts as sbatch,
// and lists and cancels jobs as squeue and scancel.
// Every call that it does not serve completely becomes a call of synapse-cli, with the same arguments, so that output,
// errors and exit codes are those of synapse-cli. `synapse-cli slurm install` links Slurm's names to this program.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file decides who serves a call.

func main() {
	c := &call{variable: os.Getenv}
	if serve := served[filepath.Base(os.Args[0])]; serve != nil && serve(c, os.Args[1:]) {
		os.Exit(c.print())
	}
	err := c.handOver()
	fmt.Fprintf(os.Stderr, "%s: cannot run synapse-cli: %v: install synapse-cli in the folder of synapse-submit or in a "+
		"folder of PATH\n", filepath.Base(os.Args[0]), err)
	os.Exit(127)
}

// served maps the names of commands to their code. It reports whether the call was served completely.
var served = map[string]func(c *call, words []string) bool{
	"sbatch": (*call).sbatch, "squeue": (*call).squeue, "scancel": (*call).scancel,
}

// call is one run of the program.
type call struct {
	variable func(name string) string
	request  string // ID of a request that was sent; the answer is unknown
	output   string // the complete output of a served call
}

// print writes the output, and returns the exit code.
func (c *call) print() int {
	signal.Ignore(syscall.SIGPIPE) // as in synapse-cli, a reader that has left is no failure
	_, err := os.Stdout.WriteString(c.output)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(os.Stderr, "%s: error: %v\n", filepath.Base(os.Args[0]), err)
		return 1
	}
	return 0
}

// program is the name of the program that serves all other calls.
const program = "synapse-cli"

// handOver replaces this process by synapse-cli, from the folder of this program or from PATH. It returns only if that
// fails.
func (c *call) handOver() error {
	if c.request != "" {
		if err := os.Setenv(sbatch.RequestVariable, c.request); err != nil {
			return err
		}
	}
	var folders []string
	if self, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(self))
	}
	for _, dir := range append(folders, filepath.SplitList(c.variable("PATH"))...) {
		if dir == "" {
			continue // the working directory, which may have files of others
		}
		err := syscall.Exec(filepath.Join(dir, program), os.Args, os.Environ())
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EACCES) {
			return err
		}
	}
	return errors.New("the program was not found")
}
