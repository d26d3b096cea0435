package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// This file checks that the pages name only existing commands and flags. Other tests run commands and check what
// pages say about them.

var (
	inBlock  = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	inLine   = regexp.MustCompile("`(synapse-cli [^`\n]+)`")
	behindIt = regexp.MustCompile(` [|>;&#…\\].*|\$\(.*|…`) // text after the command
)

// commandsIn returns all commands of this program in a page.
func commandsIn(page string) (all []string) {
	for _, block := range inBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			if strings.HasPrefix(line, "synapse-cli ") {
				all = append(all, line)
			}
		}
	}
	for _, found := range inLine.FindAllStringSubmatch(inBlock.ReplaceAllString(page, ""), -1) {
		all = append(all, found[1])
	}
	return all
}

// unknownIn returns the first unknown word or flag of a command line, or "".
func unknownIn(root *cobra.Command, line string) string {
	words := strings.Fields(behindIt.ReplaceAllString(line, ""))[1:]
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case len(words) > 0 && words[0] == "COMMAND": // any command
		return ""
	case c == root && len(words) > 0 && !strings.HasPrefix(words[0], "-"):
		return words[0]
	case c.DisableFlagParsing:
		return ""
	}
	_ = c.InheritedFlags() // merges the root's flags into the command's
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case word == "--":
			return ""
		case strings.HasPrefix(word, "--") && c.Flags().Lookup(name[2:]) == nil && name != "--help" && name != "--version":
			return name
		case len(name) > 1 && name[0] == '-' && name[1] != '-' && name != "-h" && (name[1] < '0' || name[1] > '9') &&
			c.Flags().ShorthandLookup(name[1:2]) == nil:
			return name
		}
	}
	return ""
}

// TestPagesNameCommands checks that every command and flag of this program in README and docs exists.
func TestPagesNameCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	seen := 0
	pages = append(pages, "../../README.md", "../../SECURITY.md")
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(text)) {
			a := &app{name: "synapse-cli", stdout: io.Discard, stderr: io.Discard}
			if word := unknownIn(a.root(), line); word != "" {
				t.Errorf("%s: `%s`: there is no %s", filepath.Base(path), line, word)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("only %d commands were found", seen)
	}
	for line, want := range map[string]string{ // the test can fail
		"synapse-cli submti job.yaml": "submti", "synapse-cli submit --gpsu 3 -- a --nosuch": "--gpsu",
		"synapse-cli get jobs -y": "-y", "synapse-cli get jobs -w | grep --nosuch": "",
	} {
		a := &app{name: "synapse-cli", stdout: io.Discard, stderr: io.Discard}
		if got := unknownIn(a.root(), line); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
