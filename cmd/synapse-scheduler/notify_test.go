package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/server/notifications"
)

// notifying reads the section from the text of a file.
func notifying(t *testing.T, text string) (*options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &options{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.flags(flags)
	settings.Flag(flags)
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	_, err := settings.Apply(flags, twins, none, o.sections()...)
	return o, err
}

// TestNotifyIsRead checks that rules are read, and that each error has its position and a fix.
func TestNotifyIsRead(t *testing.T) {
	o, err := notifying(t, "notify:\n"+
		"  page: {on: [node-unschedulable, start-guarantee-broken], command: [/bin/true, x], timeout: 20s}\n"+
		"  chat: {on: job-finished, outcomes: failed, queues: [nlp], owners: [ann], webhook: 'https://h.example/a?key=s'}\n")
	if err != nil || len(o.notify) != 2 || o.notify[0].timeout.Seconds() != 20 || o.notify[1].outcomes[0] != "failed" ||
		redacted(o.notify[1].webhook) != "https://h.example/a?…" {
		t.Fatalf("%+v, %v", o.notify, err)
	}
	for text, want := range map[string]string{
		"  page: {on: [job-finishd], command: [/bin/true]}":                       `notify.page.on: unknown value "job-finishd"; did you mean`,
		"  page: {command: [/bin/true]}":                                          "notify.page: on: is missing",
		"  page: {on: job-finished}":                                              "needs one of command and webhook",
		"  page: {on: job-finished, command: [/bin/true], webhook: 'https://x/'}": "needs one of command and webhook",
		"  page: {on: job-finished, command: [bin/true]}":                         "use an absolute path",
		"  page: {on: job-finished, webhook: 'http://hooks.example/'}":            "must begin with https://",
		"  page: {on: job-finished, webhook: 'https://ann:pw@hooks.example/'}":    "put a token into tokenFile",
		"  page: {on: node-unschedulable, owners: [ann], command: [/bin/true]}":   "require an event of jobs",
		"  page: {on: start-guarantee-broken, outcomes: failed, command: [/x]}":   "outcomes: requires on: job-finished",
		"  page: {on: job-finished, command: [/x], timeout: 1h}":                  "must be a duration from 1s to 5m0s",
		"  page: {on: job-finished, command: [/bin/true], tokenFile: /etc/t}":     "tokenFile: requires webhook",
		"  Page: {on: job-finished, command: [/bin/true]}":                        "is not a rule name",
		"  page: {on: job-finished, comand: [/bin/true]}": "notify.page.comand: unknown setting; did " +
			"you mean",
	} {
		if _, err := notifying(t, "notify:\n"+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestNotifyBounds checks that the smallest and largest time and the largest number of rules are accepted, and that
// values beyond them are refused.
func TestNotifyBounds(t *testing.T) {
	rules := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("  r%d: {on: job-finished, command: [/bin/true]}\n", i)
		}
		return text
	}
	within := func(span string) string {
		return "  page: {on: job-finished, command: [/bin/true], timeout: " + span + "}\n"
	}
	for text, refused := range map[string]string{
		within("1s"): "", within("999ms"): "must be a duration", within("5m"): "",
		within("5m1ms"): "must be a duration",
		rules(maxRules): "", rules(maxRules + 1): "exceeds the limit of 32 rules",
	} {
		_, err := notifying(t, "notify:\n"+text)
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%.120s: %v, want %q", text, err, refused)
		}
	}
}

// TestProgramsAreTold checks that a program gets the notification as JSON on stdin and its fields in the
// environment, but not the scheduler's own variables.
func TestProgramsAreTold(t *testing.T) {
	t.Setenv("SYNAPSE_SCHEDULER_STORE", "postgres://secret")
	dir := t.TempDir()
	program := filepath.Join(dir, "page")
	script := "#!/bin/sh\n{ cat; echo; env; } > " + filepath.Join(dir, "told") + "\nexit \"$1\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := ruleSettings{command: []string{program, "0"}, timeout: maxNotifyTime}
	about := &notifications.AboutJob{ID: "j1"}
	n := &notifications.Notification{Event: notifications.JobOver, Text: "it's over", ID: "job-finished/j1", Job: about}
	if err := r.tell()(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"text":"it's over","job":{"id":"j1"`, "\nSYNAPSE_TEXT=it's over\n",
		"\nSYNAPSE_EVENT=job-finished\n", "\nSYNAPSE_NOTIFICATION_ID=job-finished/j1\n"} {
		if !strings.Contains(string(told), want) {
			t.Errorf("%q is missing in:\n%s", want, told)
		}
	}
	if strings.Contains(string(told), "secret") {
		t.Errorf("it has our environment:\n%s", told)
	}
	if r.command[1] = "3"; r.tell()(t.Context(), n) == nil {
		t.Error("a program that fails has told")
	}
}
