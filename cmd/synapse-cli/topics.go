package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file implements `help TOPIC`: short texts about the job file, the exit codes and the environment of a task.
// The reference pages are written from the same texts.

// topicWidth is the width of a topic's lines.
const topicWidth = 98

// topics lists the names of the topics, and what each prints.
var topics = []struct {
	name, purpose string
	print         func(io.Writer)
}{
	{"job-file", "keys of a job file", printJobFile},
	{"exit-codes", "exit codes of the commands", printExitCodes},
	{"environment", "environment variables of a task", printEnvironment},
}

// topicNamed returns the function that prints a topic, or nil for an unknown name.
func topicNamed(name string) func(io.Writer) {
	for _, t := range topics {
		if t.name == name {
			return t.print
		}
	}
	return nil
}

// topicsHelp lists the topics in the help of `help`.
func topicsHelp() string {
	text := "Shows the help of a command or of a topic.\n\nTopics:\n"
	for _, t := range topics {
		text += fmt.Sprintf("  %-12s %s\n", t.name, t.purpose)
	}
	return strings.TrimSuffix(text, "\n")
}

// printJobFile prints each key with its meaning.
func printJobFile(w io.Writer) {
	fmt.Fprintln(w, wrapped("A job file is YAML or JSON. A file with several documents submits several jobs. "+
		"`submit --dry-run` checks a file, and `get job JOB -o yaml` writes the file of a job. These are the keys, "+
		"as paths from the top:", ""))
	for _, s := range jobfile.Reference() {
		fmt.Fprintln(w)
		for _, k := range s.Keys {
			name := strings.TrimPrefix(s.Path+"."+k.Name, ".")
			text := k.Meaning
			switch k.Default {
			case "", "none":
			case "required":
				text += " Required."
			default:
				text += " Default: " + k.Default + "."
			}
			printRow(w, name, text, 26)
		}
	}
}

// printExitCodes prints each code with its meaning.
func printExitCodes(w io.Writer) {
	for _, c := range exit.Texts() {
		printRow(w, c.Code, c.Meaning, 8)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, wrapped(exit.JobCodes, ""))
}

// printEnvironment prints each group of variables with its meanings.
func printEnvironment(w io.Writer) {
	for i, g := range environmentTexts() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, g.title+":")
		for _, v := range g.variables {
			printRow(w, strings.Join(v.names, " "), v.meaning, 26)
		}
	}
}

var (
	linkText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	})
	codeText = strings.NewReplacer("`", "")
)

// printRow prints a name and its text, wrapped in a column.
func printRow(w io.Writer, name, text string, width int) {
	indent := strings.Repeat(" ", width+4)
	lines := wrapped(codeText.Replace(linkText().ReplaceAllString(text, "$1")), indent)
	if len(name) > width {
		fmt.Fprintf(w, "  %s\n%s\n", name, lines)
		return
	}
	fmt.Fprintf(w, "  %-*s  %s\n", width, name, strings.TrimPrefix(lines, indent))
}

// wrapped breaks a text into lines.
func wrapped(text, indent string) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(codeText.Replace(text)) {
		if len(line)+1+len(word) > topicWidth && strings.TrimSpace(line) != "" {
			lines, line = append(lines, strings.TrimRight(line, " ")), indent
		}
		line += word + " "
	}
	return strings.Join(append(lines, strings.TrimRight(line, " ")), "\n")
}

// completeTopics completes the argument of `help`.
func completeTopics() (names []cobra.Completion) {
	for _, t := range topics {
		names = append(names, cobra.CompletionWithDesc(t.name, t.purpose))
	}
	return names
}

// meantTopic suggests a topic for an unknown word, or returns "" if none is similar.
func meantTopic(word string) string {
	var names []string
	for _, t := range topics {
		names = append(names, t.name)
	}
	if near := spelling.Nearest(word, names); near != "" {
		return "did you mean `help " + near + "`?"
	}
	return ""
}
