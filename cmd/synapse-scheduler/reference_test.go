package main

import (
	"flag"
	"os"
	"testing"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/manual"
	"github.com/yi-json/synapse/policy"
)

// This file writes docs/reference/scheduler-yaml.md, and the comments of deploy/etc/scheduler.yaml.

var rewrite = flag.Bool("rewrite", false, "write docs/reference/scheduler-yaml.md and deploy/etc/scheduler.yaml")

const (
	settingsPage = "../../docs/reference/scheduler-yaml.md"
	settingsFile = "../../deploy/etc/scheduler.yaml"
)

const settingsStart = `# scheduler.yaml

` + "`/etc/synapse/scheduler.yaml`" + ` has the settings of ` + "`synapse-scheduler`" + `; ` + "`--config " +
	"FILE`" + ` names another file.
Each key is the name of a flag.
The environment has the same settings: the key ` + "`data-dir`" + ` is ` + "`SYNAPSE_SCHEDULER_DATA_DIR`" + `.
The command line overrides the environment, and the environment overrides the file.

- ` + "`synapse-scheduler config check --config FILE`" + ` reports every error with line and column.
- ` + "`synapse-scheduler config show --config FILE`" + ` shows each setting with its source.
- Restart the scheduler to apply a change. Running jobs continue.
- Schedulers that share a database need the same ` + "`policy`, `perOwner`, `uids` and " +
	"`secrets-key`" + `, because each leader uses the settings in its own file.

` + "`go test ./cmd/synapse-scheduler -run SettingsPage -rewrite`" + ` writes this page from the flags and keys.

## Settings

`

// policyTexts describes the keys of the section policy, in order.
var policyTexts = []manual.Text{
	{Meaning: "Order of jobs with the same priority. `expected` starts jobs with the least expected work first, " +
		"and reserves nodes for jobs that cannot start. `fifo` starts the oldest job first, and smaller jobs fill " +
		"gaps.", Example: "fifo"},
	{Meaning: "Number of planned starts per pool for jobs that fit on one node, 0 to 100.", Example: "2"},
	{Meaning: "Number of planned starts per pool for all other jobs, 0 to 100.", Example: "2"},
	{Meaning: "Percentage of a pool that is reserved for the longest-waiting job, 0 to 50. With 0, the scheduler " +
		"guarantees no start.",
		Example: "10"},
	{Meaning: "Percentage of a pool that long jobs cannot use, 0 to 90. A job is long if its expected run time is " +
		"more than a day.",
		Example: "20"},
	{Meaning: "Minimum time that a gang waits for one rack when it could start elsewhere, 1s to 24h. 0 disables " +
		"the wait.",
		Example: "2m"},
	{Meaning: "Maximum time that a gang waits for one rack when it could start elsewhere, 1s to 24h. The gang " +
		"waits for half of the time that it has waited before, but at least `topologyWait` and at most this " +
		"time.", Example: "30m"},
	{Meaning: "Maximum duration of a reservation if its end is unknown, because a job without a time limit blocks " +
		"it; 1m to 366 days.", Example: "48h"},
	{Meaning: "Time limit of new jobs that do not set one, from 1s. 0 means no limit.", Example: "24h"},
}

// ownerTexts describes the keys of the section perOwner, in order.
var ownerTexts = []manual.Text{
	{Meaning: "Maximum number of waiting jobs. An array counts as one, and each waiting element that has become a " +
		"job also " +
		"counts as one.",
		Example: "50000"},
	{Meaning: "Maximum size of the records of waiting jobs, in MiB.", Example: "1024"},
	{Meaning: "Maximum number of submits per second. An array counts as one.", Example: "100"},
	{Meaning: "Maximum number of submits in a burst.", Example: "5000"},
	{Meaning: "Maximum percentage of the range `uids` that running jobs of the owner and their files can " +
		"use.", Example: "25"},
}

// ruleTexts describes the keys of a rule in the section notify, in order.
var ruleTexts = []manual.Text{
	{Meaning: "Events of the rule: a finished job, a node that becomes unschedulable or schedulable, or a start " +
		"guarantee " +
		"that was broken.", Example: "[job-finished]"},
	{Meaning: "Results of finished jobs that the rule matches; all if unset.", Example: "[failed, timed-out]"},
	{Meaning: "Queues whose jobs the rule matches; all if unset.", Example: "[research]"},
	{Meaning: "Owners whose jobs the rule matches; all if unset.", Example: "[ann]"},
	{Meaning: "Program and arguments. The program reads the notification as JSON from standard input.",
		Example: "[/usr/local/sbin/page, --team, gpu]"},
	{Meaning: "URL that receives the JSON as a POST: https, or http on the loopback.",
		Example: "https://chat.example.org/hooks/7f3a"},
	{Meaning: "File with a bearer token for the webhook.", Example: "/etc/synapse/chat.token"},
	{Meaning: "Maximum duration of one try, 1s to 5m.", Example: "20s"},
}

// freshOptions returns options with their defaults.
func freshOptions() *options {
	return &options{policy: policy.DefaultSettings(), owners: defaultOwners()}
}

// sectionsOfPage returns the parts of the page about the sections.
func sectionsOfPage(t *testing.T) string {
	table := func(text string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	fresh := freshOptions()
	rule := &ruleSettings{name: "x", timeout: usualNotifyTime}
	return "\n## `policy`\n\nThe section sets the scheduling policy ([start times](../explain/start-times.md)).\n" +
		"If `order` is `fifo`, the section can have only `order` and `defaultTimeLimit`.\n\n" +
		table(manual.SectionTable(policyKeys(&fresh.policy), policyTexts)) +
		"\n## `perOwner`\n\nThe section sets limits for each owner over all queues; 0 removes a limit.\n" +
		"Admins have no limits. Without `tls`, no limit applies.\n" +
		"A job above a limit is refused with code 8 (HTTP 429); a job above the limit of uids waits.\n\n" +
		table(manual.SectionTable(ownersSection(&fresh.owners).Keys, ownerTexts)) +
		"\n## `notify`\n\nThe section defines up to 32 rules. Each key is the name of a rule.\n" +
		"A rule has `on`, and either `command` or `webhook`.\n\n" +
		table(manual.SectionTable(rule.keys(), ruleTexts))
}

// TestSettingsPage checks that the page and the file have exactly the texts of the flags and sections.
func TestSettingsPage(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	freshOptions().flags(flags)
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
			t.Errorf("%s: go test ./cmd/synapse-scheduler -run SettingsPage -rewrite (%v)", path, err)
		}
	}
}
