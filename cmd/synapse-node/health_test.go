package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/runtime/gpu"
)

// readHealth reads a settings file with this section.
func readHealth(t *testing.T, section string) (*options, []settings.Value, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(path, []byte("health:\n"+section), 0o600); err != nil {
		t.Fatal(err)
	}
	o, flags := &options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	settings.Flag(flags)
	if err := flags.Set("config", path); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	from, err := settings.Apply(flags, twins, none, healthSection(&o.health))
	for name := range from { //order: only the path is cut
		from[name] = strings.Replace(from[name], path, "FILE", 1)
	}
	err = cut(err, path)
	return o, settings.Values(flags, []settings.Section{healthSection(&o.health)}, from), err
}

type cutError string

func (c cutError) Error() string { return string(c) }

func cut(err error, path string) error {
	if err == nil {
		return nil
	}
	return cutError(strings.ReplaceAll(err.Error(), path, "FILE"))
}

// TestHealthSection checks that checks are read with their occasions, and shown as a file with the same settings.
func TestHealthSection(t *testing.T) {
	program := filepath.Join(t.TempDir(), "check-ib")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o, values, err := readHealth(t, "  gpus: {check: gpus}\n"+
		"  scratch: {check: disk, path: /scratch, min: 50Gi, when: prepare}\n"+
		"  fabric:\n    command: ["+program+", mlx5_0]\n    timeout: 20s\n    when: [join, prepare, failure]\n")
	if err != nil {
		t.Fatal(err)
	}
	shown := settings.Show(values)
	for _, want := range []string{
		"  gpus:\n    check: gpus", "    when: [join, failure]", "    when: [prepare]", "    when: [join, prepare, failure]",
		"    command: [" + program + ", mlx5_0]", "    timeout: 20s", "    min: 53687091200", "# FILE:3",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("it does not show %q:\n%s", want, shown)
		}
	}
	checks, err := o.newHealth(&devices{found: &gpu.Inventory{}}, nil, nil)
	if err == nil {
		checks.Close()
	}
	if err != nil || len(o.health) != 3 {
		t.Errorf("%d checks: %v", len(o.health), err)
	}
}

// TestHealthRefuses checks that an invalid section is refused with its position before the agent starts.
func TestHealthRefuses(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]string{
		"  - gpus\n":                                 "FILE:2:3: health: must be a mapping of names",
		"  GPUs: {check: gpus}\n":                    "FILE:2:3: health.GPUs: is not a check name",
		"  a: {check: gpu}\n":                        `health.a.check: "gpu" is not a known check; did you mean "gpus"?`,
		"  a: {chek: gpus}\n":                        `health.a.chek: unknown setting; did you mean "check"?`,
		"  a: {check: gpus, when: [joins]}\n":        `health.a.when: unknown occasion "joins"; did you mean "join"?`,
		"  a: {check: gpus, when: []}\n":             "health.a.when: is empty",
		"  a: {check: gpus, when: {join: yes}}\n":    "health.a.when: must be a list of plain values",
		"  a: {timeout: 3s}\n":                       "health.a: needs one of command and check (clock, disk, gpus",
		"  a: {check: gpus, command: /bin/true}\n":   "health.a: needs one of command and check",
		"  a: {check: gpus, path: /x}\n":             "health.a: check: gpus does not support path",
		"  a: {check: disk, path: /x}\n":             "health.a: check: disk requires min",
		"  a: {check: mount, path: x}\n":             `health.a.path: "x" must be an absolute path`,
		"  a: {check: gpus, timeout: 3}\n":           `health.a.timeout: "3" must be a duration`,
		"  a: {command: true}\n":                     "health.a: true: use an absolute path",
		"  a: {command: /nosuch}\n":                  "health.a: lstat /nosuch: no such file",
		"  a: {command: " + open + "}\n":             "; run chmod go-w on it",
		"  a: {command: /bin/true, min: 1Gi}\n":      "health.a: min is allowed for built-in checks only",
		"  a: {check: gpus}\n  a: {check: memory}\n": "health.a: duplicate key",
	} {
		if _, _, err := readHealth(t, section); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", section, err, want)
		}
	}
}
