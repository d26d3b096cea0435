package slurmcmd

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/slurm"
)

// This file tests that the page of Slurm's options agrees with what the commands say about their options.

var rewrite = flag.Bool("rewrite", false, "write the page instead of comparing")

const optionsPage = "../../../../docs/reference/slurm-options.md"

// offline returns a command that prints into a text and has no cluster.
func offline(t *testing.T, name string, out *string) *CLI {
	return &CLI{
		Name: name, Variable: func(string) string { return "" },
		Page: func(text string) error { *out += text + "\n"; return nil },
		Say:  func(format string, args ...any) { t.Errorf(format, args...) },
	}
}

// optionTable returns the page. Each row is a line of the output of --help.
func optionTable(t *testing.T) string {
	page := "# Slurm options\n\n" +
		"This page lists every option of the Slurm-compatible commands, and what the command does with the option.\n" +
		"`COMMAND --help` prints the same list.\n" +
		"The page is generated from the option tables.\n" +
		"An honored option works as in Slurm, as far as [the description of the commands](slurm.md) says.\n" +
		"An accepted option has no effect, and the command prints one warning line.\n" +
		"A refused option ends the command with an error, and nothing is submitted or changed.\n" +
		"[Slurm steps](slurm-steps.md) describes the options of `srun` in a job.\n"
	names := []string{"sbatch", "salloc", "srun", "squeue", "sacct", "sinfo", "scontrol", "scancel", "sacctmgr", "sshare",
		"sprio", "seff"}
	if len(names) != len(Names()) {
		t.Fatalf("the page has %d of %d commands", len(names), len(Names()))
	}
	for _, name := range names {
		text := ""
		if code := offline(t, name, &text).Run([]string{"--help"}); code != 0 {
			t.Fatalf("%s --help ends with %d", name, code)
		}
		page += "\n## " + name + "\n\n| Option | Result | Reason |\n|---|---|---|\n"
		for line := range strings.Lines(text) {
			option, is := strings.CutPrefix(line, "  --")
			if !is {
				continue
			}
			words, rest := strings.Fields(option), ""
			option, rest = words[0], strings.Join(words[1:], " ")
			long, short := strings.CutSuffix(option, ",")
			option = "`--" + long + "`"
			if short {
				option, rest = option+", `"+words[1]+"`", strings.Join(words[2:], " ")
			}
			result, why, _ := strings.Cut(rest, ": ")
			page += "| " + option + " | " + result + " | " + strings.ReplaceAll(why, "|", "\\|") + " |\n"
		}
	}
	return page
}

func TestOptionsPage(t *testing.T) {
	want := optionTable(t)
	if *rewrite {
		if err := os.WriteFile(optionsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(optionsPage)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current (%v): run go test ./cmd/synapse-cli/internal/slurmcmd -run Options -rewrite", optionsPage,
			err)
	}
	for _, result := range []string{slurm.Honored, slurm.Warned, slurm.Refused} {
		if n := strings.Count(want, "| "+result+" |"); n < 60 {
			t.Errorf("only %d options are %s", n, result)
		}
	}
}

// TestTreatments checks that each option of a listing without code does what its table says: nothing, a warning on
// stderr, or a refusal with a reason before any request.
func TestTreatments(t *testing.T) {
	for name, rows := range treatments { //order: each command is independent
		try := func(word string) (code int, said string) {
			long, _, _ := strings.Cut(word, ",")
			if name, valued := strings.CutSuffix(long, "="); valued {
				long = name + "=7"
			}
			out := ""
			a := offline(t, name, &out)
			a.Say = func(format string, args ...any) { said += format }
			if err := a.parse(slurmFlags(name), []string{"--" + long}); err != nil {
				return 1, err.Error()
			}
			return 0, said
		}
		for word := range strings.FieldsSeq(rows.same) {
			if code, said := try(word); code != 0 || said != "" {
				t.Errorf("%s --%s: %d, %q", name, word, code, said)
			}
		}
		for word := range strings.FieldsSeq(rows.warned) {
			if code, said := try(word); code != 0 || !strings.Contains(said, "warning") {
				t.Errorf("%s --%s: %d, %q", name, word, code, said)
			}
		}
		for word, why := range rows.refused { //order: each option is independent
			if code, said := try(word); code == 0 || !strings.Contains(said, "is not supported ("+why+")") {
				t.Errorf("%s --%s: %d, %q", name, word, code, said)
			}
		}
	}
}
