package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/manual"
	"github.com/yi-json/synapse/runtime/health"
	"github.com/yi-json/synapse/runtime/hostpolicy"
)

// This file writes docs/reference/node-yaml.md, and the comments of deploy/etc/node.yaml.

var rewrite = flag.Bool("rewrite", false, "write docs/reference/node-yaml.md and deploy/etc/node.yaml")

const (
	settingsPage = "../../docs/reference/node-yaml.md"
	settingsFile = "../../deploy/etc/node.yaml"
)

const settingsStart = `# node.yaml

` + "`/etc/synapse/node.yaml`" + ` has the settings of the node agent ` + "`synapse-node`" + `; ` + "`--config " +
	"FILE`" + ` names another file.
Each key is the name of a flag.
The environment has the same settings: the key ` + "`data-dir`" + ` is ` + "`SYNAPSE_NODE_DATA_DIR`" + `.
The command line overrides the environment, and the environment overrides the file.

- ` + "`synapse-node config check --config FILE`" + ` reports every error with line and column.
- ` + "`synapse-node config show --config FILE`" + ` shows each setting with its source.
- ` + "`synapse-node doctor --config FILE`" + ` checks the node, and shows a fix for each problem.
- Restart the agent to apply a change. Running tasks continue.

` + "`go test ./cmd/synapse-node -run SettingsPage -rewrite`" + ` writes this page from the flags and keys.

## Settings

`

// checkTexts describes the keys of a check in the section health, in order.
var checkTexts = []manual.Text{
	{Meaning: "Built-in check: `clock`, `disk`, `gpus`, `memory`, `mount` or `ports`.", Example: "disk"},
	{Meaning: "Program and arguments, instead of `check`. Exit code 0 means healthy.",
		Example: "[/usr/local/sbin/check-fabric, mlx5_0]"},
	{Meaning: "Maximum duration of the check, up to 10m.", Example: "20s"},
	{Meaning: "Events that start the check: `join` is the start of the agent, `prepare` is each preparation of a " +
		"gang, and `failure` is a failed task.",
		Example: "[join, prepare, failure]"},
	{Meaning: "Path that the check `disk` or `mount` inspects.", Example: "/scratch"},
	{Meaning: "Minimum free space for the check `disk`, or minimum installed memory for the check " +
		"`memory`.", Example: "50Gi"},
	{Meaning: "Maximum difference between the clocks of the node and the scheduler, for the check " +
		"`clock`.", Example: "1s"},
	{Meaning: "InfiniBand cards that the check `ports` inspects; all cards if unset.", Example: "[mlx5_0, mlx5_1]"},
}

// policyTexts describes the keys of the file of --job-policy, in order.
var policyTexts = []manual.Text{
	{Meaning: "Lowest uid that a job may run as; 1000 by default.", Example: "5000"},
	{Meaning: "Account of each owner. Jobs of these owners run as this account only. Needs `tls`.",
		Example: "{alice: alice}"},
	{Meaning: "Groups of accounts: no job runs as a member of these groups, unless `users.owners` names the " +
		"account.", Example: "[root, " +
		"sudo, docker]"},
	{Meaning: "Permission for each job to run as any account. This is insecure.", Example: "false"},
	{Meaning: "Directory that jobs may mount. Without `mounts`, a job may mount every path that the job's user can " +
		"reach.",
		Example: "/data"},
	{Meaning: "With `true`, jobs may mount the directory only read-only.", Example: "true"},
	{Meaning: "Allowed file system types of the directory; by default, all types that store files.", Example: "[nfs4]"},
	{Meaning: "Directories whose images jobs may use by path; by default, all directories that the task's user can " +
		"read.",
		Example: "[/srv/images]"},
	{Meaning: "Hosts that images may come from; by default all, except the node's loopback.", Example: "[ghcr.io]"},
	{Meaning: "Device files that jobs may mount; by default none.", Example: "[/dev/fuse]"},
	{Meaning: "Permission for tasks to select NUMA nodes for their memory; false by default.", Example: "true"},
	{Meaning: "Destinations that tasks may connect to although they are blocked by default: `schedulers` (the " +
		"ports of the schedulers) and `metadata` (the metadata service of the cloud).", Example: "[metadata]"},
	{Meaning: "Name servers of private networks, as IPv4 addresses; by default, those of the node.",
		Example: "[10.0.0.2]"},
	{Meaning: "Permission for jobs with the image `host`; true by default.", Example: "false"},
	{Meaning: "Permission for jobs without a container; true by default.", Example: "false"},
}

// keysOf returns the YAML keys of a type, in order.
func keysOf(prefix string, of reflect.Type) (keys []string) {
	for i := range of.NumField() {
		name, field := of.Field(i).Tag.Get("yaml"), of.Field(i).Type
		switch {
		case name == "-" || name == "":
		case field.Kind() == reflect.Slice && field.Elem().PkgPath() == of.PkgPath():
			keys = append(keys, keysOf(prefix+name+"[].", field.Elem())...)
		case field.Kind() == reflect.Struct && field.PkgPath() == of.PkgPath():
			keys = append(keys, keysOf(prefix+name+".", field)...)
		default:
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

// sectionsOfPage returns the parts of the page about the section and the job policy.
func sectionsOfPage(t *testing.T) string {
	c := &checkSettings{name: "x", timeout: 30 * time.Second, when: health.Join | health.Failure, most: 5 * time.Second}
	checks, err := manual.SectionTable(c.keys(), checkTexts)
	if err != nil {
		t.Fatal(err)
	}
	page := "\n## `health`\n\nThe section defines up to 32 health checks. Each key is the name of a check.\n" +
		"While a check fails, no new task starts on the node.\n\n" + strings.Replace(checks, "`0`", "", 1) +
		"\n## The job policy\n\nThe setting `job-policy` names a YAML file that restricts the jobs on this node.\n" +
		"The file must belong to root or to the agent's user, and other users must not be able to change it.\n" +
		"The agent reads the file when it starts; an unknown key prevents the start.\n" +
		"An unset key does not restrict jobs, unless the table has a default for the key.\n\n" +
		"| key | meaning | example |\n|---|---|---|\n"
	keys := keysOf("", reflect.TypeFor[hostpolicy.Policy]())
	if len(keys) != len(policyTexts) {
		t.Fatalf("%d keys have %d texts: %v", len(keys), len(policyTexts), keys)
	}
	for i, text := range policyTexts {
		page += fmt.Sprintf("| `%s` | %s | `%s` |\n", keys[i], text.Meaning, text.Example)
	}
	return page
}

// TestSettingsPage checks that the page and the file have exactly the texts of the flags and sections.
func TestSettingsPage(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&options{}).flags(flags)
	file, err := os.ReadFile(settingsFile)
	if err != nil {
		t.Fatal(err)
	}
	wantFile := manual.SettingsFile(flags, string(file))
	wantPage := settingsStart + manual.SettingsTable(flags, wantFile) + sectionsOfPage(t)
	for path, want := range map[string]string{settingsFile: wantFile, settingsPage: wantPage} { //order: independent
		if *rewrite {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: go test ./cmd/synapse-node -run SettingsPage -rewrite (%v)", path, err)
		}
	}
}
