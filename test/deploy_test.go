// No test has the hosts for which deploy/ is made. This file checks what can be checked without such a host: each
// setting of a program is in its settings file, and a unit does not end tasks.
package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	aSetting = regexp.MustCompile(`(?m)^#?([a-z][a-z-]*):`)
	aFlag    = regexp.MustCompile(`f\.[A-Za-z0-9]*Var\(&o\.\w+, "([a-z-]+)"`)
)

// TestSettingsFiles checks that the packaged file of a program lists all its settings and no others.
func TestSettingsFiles(t *testing.T) {
	for file, program := range map[string]string{"scheduler.yaml": "synapse-scheduler", "node.yaml": "synapse-node"} {
		flags := matches(t, aFlag, filepath.Join(root, "cmd", program, "main.go"))
		settings := matches(t, aSetting, filepath.Join(root, "deploy", "etc", file))
		if len(flags) < 5 {
			t.Errorf("only %d flags of %s were found", len(flags), program)
		}
		if !slices.Equal(flags, settings) {
			t.Errorf("deploy/etc/%s has the settings\n%v, but %s has the flags\n%v", file, settings, program, flags)
		}
	}
}

func matches(t *testing.T, of *regexp.Regexp, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, found := range of.FindAllSubmatch(text, -1) {
		all = append(all, string(found[1]))
	}
	slices.Sort(all)
	return all
}

// TestUnitsLeaveTasks checks that no stop, restart or memory shortage of the agent's unit ends a task, and that the
// unit puts no isolation between the agent and the host on which it creates containers.
func TestUnitsLeaveTasks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", "synapse-node.service"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, must := range []string{"Type=notify", "KillMode=process", "OOMPolicy=continue", "Delegate=yes",
		"TasksMax=infinity", "Restart=always"} {
		if !slices.Contains(lines, must) {
			t.Errorf("synapse-node.service lacks %s", must)
		}
	}
	for _, line := range lines {
		for _, never := range []string{"Private", "Protect", "ReadOnly", "Inaccessible", "SystemCallFilter", "DeviceAllow",
			"CapabilityBoundingSet", "NoNewPrivileges", "RestrictNamespaces", "MemoryMax", "ExecStop", "Slice"} {
			if strings.HasPrefix(line, never) {
				t.Errorf("synapse-node.service has %s, which would also restrict containers", line)
			}
		}
	}
}
