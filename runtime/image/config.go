//go:build linux

package image

import (
	"errors"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/yi-json/synapse/runtime/environment"
)

// This file owns the run configuration of an image and merges it with that of the job.

// Config holds the configuration of an image. It is empty for a rootfs directory.
type Config struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"` // NAME=value
	WorkingDir string   `json:"workingDir,omitempty"`
	User       string   `json:"user,omitempty"`
	StopSignal string   `json:"stopSignal,omitempty"`
}

// Run holds the command to run: that of a job, or the result of merging it with the image.
type Run struct {
	Command []string
	Env     []string // NAME=value
	Workdir string
	User    string
}

func configOf(file *v1.ConfigFile) Config {
	c := file.Config
	config := Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal,
	}
	for _, entry := range c.Env {
		if name, _, found := strings.Cut(entry, "="); found && name != "" && !strings.ContainsRune(entry, 0) {
			config.Env = append(config.Env, entry)
		}
	}
	if config.WorkingDir != "" {
		config.WorkingDir = path.Clean("/" + config.WorkingDir)
	}
	return config
}

// Command returns the default command of the image.
func (c Config) Command() []string { return slices.Concat(c.Entrypoint, c.Cmd) }

// Merge returns the command to run. A job's command replaces the image's entrypoint and arguments. The image's
// environment adds variables that the job does not set.
func (c Config) Merge(job Run) (Run, error) {
	run := Run{Command: job.Command, Workdir: job.Workdir, User: job.User}
	if len(run.Command) == 0 {
		run.Command = c.Command()
	}
	if len(run.Command) == 0 {
		return Run{}, errors.New("command: is empty, and the image has none; add a command to the job")
	}
	if run.Workdir == "" {
		run.Workdir = c.WorkingDir
	}
	if run.User == "" {
		run.User = c.User
	}
	run.Env = environment.Merge(c.Env, job.Env)
	return run, nil
}
