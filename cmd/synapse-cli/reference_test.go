package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/manual"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file writes the pages in docs/reference/cli from the help of the commands: an index, and one page per
// command. Subcommands are on the page of their parent.

var rewrite = flag.Bool("rewrite", false, "write docs/reference/cli")

// exampleComment matches the start of a comment in an example.
var exampleComment = regexp.MustCompile(` {2,}# `)

const referenceFolder = "../../docs/reference/cli"

// commandGroups lists the sections of the index, with their commands in order.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"Submit and change jobs", []string{"submit", "run", "cancel", "hold", "release", "requeue", "checkpoint",
		"priority", "update"}},
	{"Watch jobs and read output", []string{
		"get", "describe", "explain", "logs", "attach", "wait", "watch", "events", "top", "web", "history",
		"efficiency"}},
	{"Work inside a running task", []string{"exec", "cp", "port-forward"}},
	{"Operate nodes and queues", []string{
		"drain", "cordon", "uncordon", "note", "remove", "image", "deploy", "apply", "audit", "debug"}},
	{"Keys, tokens and logins", []string{
		"init", "certify", "token", "login", "logout", "contexts", "context", "whoami"}},
	{"Local clusters and other tools", []string{"up", "simulate", "slurm", "version"}},
}

// notListed lists commands without a page. Their own help is sufficient, they are for packagers, or they are another
// name of a command with a page.
var notListed = []string{"completion", "help", "docs", "suspend", "auth", "config"}

// TestCommandReference checks that docs/reference/cli has a page for each command with the text of its help, and no
// other page.
func TestCommandReference(t *testing.T) {
	a := &app{name: "synapse-cli", stdout: io.Discard, stderr: io.Discard}
	root := a.root()
	root.InitDefaultCompletionCmd()
	pages := map[string]string{"README.md": indexOfCommands(t, root)}
	for _, c := range root.Commands() {
		if !slices.Contains(notListed, c.Name()) {
			pages[c.Name()+".md"] = pageOfCommand(c)
		}
	}
	if *rewrite {
		if err := os.MkdirAll(referenceFolder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range pages { //order: each file is independent
			if err := os.WriteFile(filepath.Join(referenceFolder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(referenceFolder)
	if err != nil || len(files) != len(pages) {
		t.Errorf("%d files, %d wanted: %v", len(files), len(pages), err)
	}
	for name, want := range pages { //order: each file is independent
		if text, err := os.ReadFile(filepath.Join(referenceFolder, name)); err != nil || string(text) != want {
			t.Errorf("docs/reference/cli/%s is not the help: go test ./cmd/synapse-cli -run CommandReference -rewrite",
				name)
		}
	}
}

// indexOfCommands returns the index: all commands in groups, and the rules for all of them.
func indexOfCommands(t *testing.T, root *cobra.Command) string {
	introduction, err := os.ReadFile("testdata/reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(string(introduction), "COMMANDS\n")
	page := head
	seen := slices.Clone(notListed)
	for _, group := range commandGroups {
		page += "## " + group.title + "\n\n| command | purpose |\n|---|---|\n"
		for _, name := range group.commands {
			c, _, err := root.Find([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, name)
			page += fmt.Sprintf("| [%s](%s.md) | %s |\n", name, name, manual.Sentence(c.Short))
		}
		page += "\n"
	}
	for _, c := range root.Commands() {
		if !slices.Contains(seen, c.Name()) {
			t.Errorf("%s is in no group of the index", c.Name())
		}
	}
	codes := "| code | meaning |\n|---|---|\n"
	for _, text := range exit.Texts() {
		codes += "| " + text.Code + " | " + text.Meaning + " |\n"
	}
	codes += "\n" + manual.Markdown(exit.JobCodes)
	return strings.NewReplacer("GLOBAL FLAGS\n", manual.FlagTable(root.PersistentFlags()), "EXIT CODES\n", codes).
		Replace(page + tail)
}

// pageOfCommand returns the page of a command and its subcommands.
func pageOfCommand(c *cobra.Command) string {
	page := "# synapse-cli " + c.Name() + "\n\n" + bodyOf(c, "##")
	for _, below := range c.Commands() {
		if below.Hidden { // its parent describes it
			continue
		}
		page += "\n## " + strings.TrimPrefix(below.CommandPath(), "synapse-cli ") + "\n\n" + bodyOf(below, "###")
	}
	return page + "\nThe [index](README.md) has the global flags, the exit codes, and the ways to select jobs " +
		"and nodes.\n"
}

// bodyOf returns the help of one command.
func bodyOf(c *cobra.Command, heading string) string {
	page := manual.Sentence(c.Short) + "\n"
	if c.Long != "" {
		page = manual.Markdown(c.Long)
	}
	if strings.Contains(c.Use, " ") || !c.HasSubCommands() {
		page += "\n**Usage:** `" + strings.TrimSuffix(c.UseLine(), " [flags]") + "`\n"
	}
	if len(c.Aliases) > 0 {
		page += "\n**Aliases:** `" + strings.Join(c.Aliases, "`, `") + "`\n"
	}
	if c.Example != "" {
		page += "\n**Examples:**\n\n"
		for line := range strings.Lines(c.Example) {
			command, comment := strings.TrimSpace(line), ""
			if at := exampleComment.FindStringIndex(command); at != nil {
				command, comment = command[:at[0]], ": "+strings.TrimSpace(command[at[1]:])
			}
			page += "- `" + command + "`" + comment + "\n"
		}
	}
	return page + tablesOf(c, heading)
}

// tablesOf returns the tables of a command's own flags. `run` has most flags of `submit`, so its page only lists
// the others.
func tablesOf(c *cobra.Command, heading string) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	submit, _, _ := c.Root().Find([]string{"submit"})
	shared := 0
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		same := submit.Flags().Lookup(f.Name)
		switch {
		case f.Hidden || f.Name == "help":
		case c.Name() == "run" && same != nil && same.Usage == f.Usage:
			shared++
		default:
			own.AddFlag(f)
		}
	})
	page := ""
	if own.HasFlags() {
		page = "\n" + heading + " Flags\n\n"
	}
	if shared > 0 {
		page += "The command also has the flags of [submit](submit.md#flags) for resources, placement, tasks, time " +
			"and files.\n\n"
	}
	if c.Name() == "submit" {
		for _, group := range flagGroups {
			shown := pflag.NewFlagSet("", pflag.ContinueOnError)
			shown.SortFlags = false
			for _, name := range group.flags {
				if f := own.Lookup(name); f != nil {
					shown.AddFlag(f)
				}
			}
			own = without(own, shown)
			page += "**" + group.title + "**\n\n" + manual.FlagTable(shown) + "\n"
		}
		page = strings.TrimSuffix(page, "\n")
	}
	return page + manual.FlagTable(own)
}
