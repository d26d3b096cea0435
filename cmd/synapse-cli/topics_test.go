package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file writes docs/reference/environment.md, and tests `help TOPIC`.

const environmentPage = "../../docs/reference/environment.md"

// pageOfEnvironment returns the page.
func pageOfEnvironment(t *testing.T) string {
	introduction, err := os.ReadFile("testdata/environment.txt")
	if err != nil {
		t.Fatal(err)
	}
	page := string(introduction)
	for _, g := range environmentTexts() {
		page += "\n## " + g.title + "\n\n"
		if g.note != "" {
			page += g.note + "\n\n"
		}
		page += "| variable | meaning | set for | example |\n|---|---|---|---|\n"
		for _, v := range g.variables {
			examples := ""
			if v.example != "" {
				examples = "`" + strings.Join(strings.Fields(v.example), "` `") + "`"
			}
			page += fmt.Sprintf("| `%s` | %s | %s | %s |\n", strings.Join(v.names, "` `"), v.meaning, v.when, examples)
		}
	}
	return page
}

// TestEnvironmentPage checks that the page has exactly the descriptions of the variables.
func TestEnvironmentPage(t *testing.T) {
	want := pageOfEnvironment(t)
	if *rewrite {
		if err := os.WriteFile(environmentPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(environmentPage); err != nil || string(text) != want {
		t.Error("docs/reference/environment.md: go test ./cmd/synapse-cli -run EnvironmentPage -rewrite")
	}
}

// TestHelpTopics checks that each topic prints its texts in short lines, and that the help of `help` lists the
// topics.
func TestHelpTopics(t *testing.T) {
	lookup := func(string) (string, bool) { return "", false }
	show := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := run(append([]string{"synapse-cli"}, args...), strings.NewReader(""), &out, &errs, lookup)
		return out.String() + errs.String(), code
	}
	for name, wants := range map[string][]string{
		"job-file": {"spec.gang.replicas", "metadata.name", "spec.resources.memory"}, "exit-codes": {"128 + N",
			"Infeasible"},
		"environment": {"SYNAPSE_RANK", "MASTER_ADDR MASTER_PORT", "SLURM_ARRAY_TASK_STEP"},
	} {
		text, code := show("help", name)
		for _, want := range wants {
			if code != exit.OK || !strings.Contains(text, want) {
				t.Errorf("help %s (%d) has no %s", name, code, want)
			}
		}
		for line := range strings.Lines(text) {
			if len(line) > topicWidth+len("…\n") && !strings.HasPrefix(line, "  SLURM_ARRAY") {
				t.Errorf("help %s: %q is too long", name, line)
			}
		}
		if strings.ContainsAny(text, "`") || strings.Contains(text, "](") {
			t.Errorf("help %s has Markdown:\n%s", name, text)
		}
		if text, _ := show("help", "--help"); !strings.Contains(text, name) {
			t.Errorf("help --help does not list %s:\n%s", name, text)
		}
	}
	if text, code := show("help", "job-fiel"); code != exit.Misuse || !strings.Contains(text, "job-file") {
		t.Errorf("a misspelt topic: %d %s", code, text)
	}
	if text, code := show("help", "submit"); code != exit.OK || !strings.Contains(text, "synapse-cli submit") {
		t.Errorf("help of a command: %d %s", code, text)
	}
}

// TestExitTexts checks that each code of the API has a description.
func TestExitTexts(t *testing.T) {
	texts := fmt.Sprint(exit.Texts())
	for _, code := range []int{exit.OK, exit.Failed, exit.Misuse, exit.NotFound, exit.Conflict, exit.NotAllowed,
		exit.TimedOut, exit.Infeasible, exit.NotRun, exit.Unavailable, exit.Interrupted} {
		if !strings.Contains(texts, fmt.Sprintf("{%d ", code)) {
			t.Errorf("exit code %d has no text", code)
		}
	}
	if len(messages.LaunchWords()) != 7 {
		t.Error("the list of launchers in testdata/environment.txt has seven")
	}
}

// TestManPages checks that a man page keeps the lines of a table, and describes a command with only a short text.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	lookup := func(string) (string, bool) { return "", false }
	if code := run([]string{"synapse-cli", "docs", "man", dir}, strings.NewReader(""), &out, &out,
		lookup); code != exit.OK {
		t.Fatal(code, out.String())
	}
	for name, want := range map[string]string{
		"efficiency": "\nstarting             Allocated", "simulate": "\nsacct    Output of", "drain": "\nDrain nodes: " +
			"no job starts there",
	} {
		if text,
			err := os.ReadFile(dir + "/synapse-cli-" + name + ".1"); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no line %q (%v):\n%s", name, want, err, text)
		}
	}
}
