package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file defines the output of errors, one line and an optional hint, and their exit codes.

const exitHelp = "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 timed out,\n" +
	"7 can never run on this cluster, 8 unavailable. `submit --wait` and `wait` exit with the job's own code\n" +
	"(128 + n for signals)."

// refusedFile returns an error with all problems of a file.
func refusedFile(name string, problems jobfile.Problems) error {
	lines := problems.Lines(name)
	return &exit.Failure{Code: exit.Misuse, Text: lines[0], More: lines[1:], Problems: problems}
}

// usageError returns a one-line error for a wrong command line.
func usageError(root *cobra.Command, args []string, err error) error {
	var f *exit.Failure
	if errors.As(err, &f) {
		return err
	}
	found, _, _ := root.Find(args)
	if found == nil {
		found = root
	}
	path := strings.Replace(found.CommandPath(), root.Name(), "synapse-cli", 1)
	if old, now := settings.RenamedFlag(path, err); now != "" {
		return exit.Usage("unknown flag --%s of %s: use --%s", old, found.Name(), now)
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	hint := fmt.Sprintf("run `%s --help` for its usage", found.CommandPath())
	word, _, is := strings.Cut(strings.TrimPrefix(text, `unknown command "`), `" for`)
	flag := settings.MeantFlag(found.Flags(), err)
	if strange := strangeKind(found, args); strange != "" && strings.HasPrefix(text, "unknown ") {
		return exit.Hint(meant(found, strange), "unknown command %q for %q", strange, found.CommandPath())
	}
	switch habit := flagHabit(found.Name(), text); {
	case habit != "":
		hint = habit
	case flag != "":
		hint = fmt.Sprintf("did you mean --%s? %s", flag, hint)
	case is && strings.HasPrefix(text, "unknown command"):
		hint = cmp.Or(meant(found, word), hint)
	case !found.HasParent() && strings.HasPrefix(text, "unknown ") && foreign(root, args) != "":
		return exit.Hint(cmp.Or(meant(root, foreign(root, args)), hint), "unknown command %q for %q", foreign(root, args),
			root.Name())
	case found.Name() == "submit" && strings.HasPrefix(text, "unknown ") && !slices.Contains(args, "--"):
		hint += "; write a command and its flags after --"
	}
	return exit.Hint(hint, "%s", text)
}

// listsKinds reports whether a command has one command for each kind of object.
func listsKinds(found *cobra.Command) bool {
	return found.HasParent() && slices.Contains([]string{"get", "top", "describe"}, found.Name())
}

// strangeKind returns the kind of another scheduler that follows `get`, `top` or `describe`, or "". Its flags are
// unknown too, but the kind is the mistake.
func strangeKind(found *cobra.Command, args []string) string {
	at := slices.Index(args, found.Name())
	if !listsKinds(found) || at < 0 || at+1 == len(args) {
		return ""
	}
	if word := args[at+1]; kinds[word] != "" || advice[found.Name()+" "+word] != "" {
		return word
	}
	return ""
}

// foreign returns the argument in the position of a command that is not a command, or "".
func foreign(root *cobra.Command, args []string) string {
	at := slices.IndexFunc(args, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if at < 0 || at > 0 && !strings.Contains(args[at-1], "=") {
		return "" // after a flag, the word may be a value
	}
	if c, _, err := root.Find(args[at : at+1]); err == nil && c != root {
		return ""
	}
	return args[at]
}

// helpCommand shows the help of a command and refuses unknown words. The library's command would show the general
// help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND | TOPIC]", Short: "show the help of a command or topic", Long: topicsHelp(),
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			names := completeTopics()
			for _, below := range c.Root().Commands() {
				if below.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if topic := topicNamed(args[0]); topic != nil {
					topic(c.OutOrStdout())
					return nil
				}
			}
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				word := strings.Join(args, " ")
				hint := cmp.Or(meant(c.Root(), args[0]), meantTopic(args[0]), fmt.Sprintf("run `%s --help` for a list",
					c.Root().Name()))
				return exit.Hint(hint, "unknown command %q", word)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// meant suggests a command for an unknown word, or returns "" if none is similar.
func meant(found *cobra.Command, word string) string {
	var words, ways []string
	for _, c := range found.Commands() {
		if c.IsAvailableCommand() {
			words = append(words, c.Name())
			ways = append(ways, "`"+c.CommandPath()+" "+show.Command(word)+"`")
		}
	}
	near := spelling.Nearest(word, words)
	other := elsewhere[word]
	switch found.Name() {
	case "get", "top":
		other = kinds[word]
	case "describe":
		other = strings.TrimSuffix(kinds[word], "s")
	}
	switch {
	case advice[found.Name()+" "+word] != "":
		return advice[found.Name()+" "+word]
	case advice[word] != "" && !found.HasParent():
		return advice[word]
	case other != "" && (listsKinds(found) || !found.HasParent()):
		return "did you mean `" + found.CommandPath() + " " + other + "`?"
	case near != "":
		return "did you mean `" + found.CommandPath() + " " + near + "`?"
	case found.HasParent() && found.Name() == "describe":
		return strings.Join(ways, " or ")
	case found.Name() == "get":
		return "use " + strings.Join(words, ", ")
	}
	return ""
}

// end reports an error and returns the exit code.
func (a *app) end(err error) int {
	var problems jobfile.Problems
	switch {
	case err == nil, exit.Closed(err):
		return exit.OK
	case a.style.Format == "json":
		return a.endAsJSON(err)
	case errors.As(err, &problems):
		for _, line := range problems.Lines("") {
			a.say("%s: %s", a.name, line)
		}
		return exit.Misuse
	case errors.Is(err, context.Canceled):
		return exit.Interrupted
	}
	text, hint := exit.Words(err)
	if text != "" {
		first, rest, more := strings.Cut(text, "\n")
		a.say("%s: %s", a.name, first)
		for line := range strings.SplitSeq(rest, "\n") {
			if more {
				a.say("  %s", line) // indented, so that foreign text never starts a line
			}
		}
	}
	var f *exit.Failure
	if errors.As(err, &f) {
		for _, line := range f.More {
			a.say("%s", line)
		}
	}
	if hint != "" {
		a.say("hint: %s", hint)
	}
	return exit.Code(err)
}
