package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns what tasks run in, and who supervises them.

// driverAuto takes containers where they work, and plain processes elsewhere.
const driverAuto = "auto"

// probeLimit bounds the trial of a container: a mount that hangs must not keep a machine out for ever.
const probeLimit = 30 * time.Second

// means are the drivers, the one for new tasks first, and the supervisor's command.
type means struct {
	drivers    []launcher.Driver
	supervisor []string
}

// choose finds out what works here, and says it. Both drivers are there in any
// case: an earlier agent may have chosen otherwise, and its tasks may still run.
func (o *options) choose(dir string, images *image.Store, log actors.Log) (means, error) {
	binary, err := findCarapace(o.carapace)
	if err != nil {
		return means{}, err
	}
	containers, err := container.New(container.Options{
		Binary: binary, StateDir: filepath.Join(dir, "carapace"), Hide: []string{dir}, Users: account.Rules{AllowRoot: o.allowRoot},
		Images: container.Stored{Store: images},
	})
	if err != nil {
		return means{}, err
	}
	if err := containers.Collect(); err != nil {
		log.Info("What an earlier agent's containers left cannot be removed yet: %v", err)
	}
	plain := process.New(process.Options{AllowRoot: o.allowRoot})
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	m := means{supervisor: []string{"/proc/self/exe", supervisor.SubCommand}}
	why := "there is no carapace beside this program or in PATH"
	if binary != "" {
		if err := containers.Check(ctx); err != nil {
			if o.carapace != "" || o.driver == container.Name {
				return m, fmt.Errorf("--carapace: %w", err)
			}
			why = err.Error()
		} else {
			m.supervisor[0] = binary // a third of our own size, once for each task
			why = o.unwilling(ctx, containers)
		}
	}
	if why != "" {
		if o.driver == container.Name {
			return m, fmt.Errorf("--driver %s: %s", container.Name, why)
		}
		log.Info("Driver %s: tasks are not isolated, because %s", process.Name, why)
		m.drivers = []launcher.Driver{plain, containers}
		return m, nil
	}
	lacks := ""
	if all := containers.Lacks(); len(all) > 0 {
		lacks = "; this machine cannot enforce: " + strings.Join(all, ", ")
	}
	log.Info("Driver %s: each task has a container of its own%s", container.Name, lacks)
	m.drivers = []launcher.Driver{containers, plain}
	return m, nil
}

// unwilling is why new tasks are not to be run in containers; empty: they are.
func (o *options) unwilling(ctx context.Context, containers *container.Driver) string {
	switch {
	case o.driver == process.Name:
		return "--driver process says so"
	case o.driver == driverAuto && os.Geteuid() != 0:
		return "the agent is not root"
	}
	if err := containers.Try(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// findCarapace answers an absolute path, or nothing where there is none.
func findCarapace(given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", fmt.Errorf("--carapace: %w", err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "carapace")
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath("carapace")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot) {
		return "", nil
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return path, err
}
