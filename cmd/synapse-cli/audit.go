package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/server/audit"
)

// This file implements `audit`, which reads the audit log of a scheduler on the scheduler's host.

func (a *app) auditCommand() *cobra.Command {
	var who string
	var refused bool
	c := a.objectFlag(&cobra.Command{
		Use:   "audit DIR",
		Short: "show the audit log of a scheduler with TLS",
		Long: "Reads the audit log that a scheduler with --tls writes to the folder audit in its --data-dir. Each\n" +
			"change has two records: one before the call, and one with the outcome. The log also has a record of\n" +
			"each refused call, and of each time a user reads another user's environment, command or output. Run\n" +
			"the command on the scheduler's host, as a user who can read that folder.",
		Example: "  synapse-cli audit data/audit\n" +
			"  synapse-cli audit data/audit --who submitter/ada\n" +
			"  synapse-cli audit data/audit --refused -o json",
		Args: named("folder", "DIR", 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.readAudit(args[0], func(l audit.Line) error {
				if refused && !strings.HasPrefix(l.Outcome, audit.Refused) || !strings.Contains(l.Who, who) {
					return nil
				}
				if a.style.Format != "" {
					if err := a.next(); err != nil {
						return err
					}
					return show.Object(a.out, a.style.Format, l)
				}
				what := strings.TrimSpace(l.Call + " " + l.What)
				for _, p := range l.Heads {
					what += fmt.Sprintf(", %s was at line %d", p.Of, p.N)
				}
				return a.data("%d %s %s %s %s: %s", l.N, l.At, cmp.Or(l.Who, "-"), cmp.Or(l.From, "-"), what, l.Outcome)
			})
		},
	})
	c.Flags().StringVar(&who, "who", "", "show only callers whose identity contains this `text`")
	c.Flags().BoolVar(&refused, "refused", false, "show only refused calls")
	c.AddCommand(a.auditVerifyCommand())
	return c
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var heads string
	c := &cobra.Command{
		Use:   "verify DIR...",
		Short: "verify that no audit log record was changed or removed",
		Long: "Verifies that each record follows from the one before it. A user who can write to the file could\n" +
			"replace the complete log. To detect such a change, compare the log with audit heads that are stored\n" +
			"elsewhere. An audit head is the number and the hash of the last record. The scheduler regularly\n" +
			"writes a line \"Audit head …\" to its own log. Pass a copy of that log, or any text with such lines,\n" +
			"to --heads.\n\n" +
			"Each scheduler has a separate audit log. A new leader records the heads of all these logs in its own\n" +
			"log. If you pass the folders of all schedulers, the command verifies these heads too, and reports\n" +
			"the missing records of each scheduler. If you pass only one folder, the command lists the schedulers\n" +
			"whose logs are missing.",
		Example: "  synapse-cli audit verify data/audit\n" +
			"  synapse-cli audit verify data/audit --heads scheduler.log\n" +
			"  synapse-cli audit verify data/audit other/audit",
		Args: named("folder", "DIR", 0),
		RunE: func(_ *cobra.Command, args []string) error {
			var kept []audit.Head
			if heads != "" {
				_, text, err := input(heads, a.stdin)
				if err != nil {
					return err
				}
				if kept, err = audit.Heads(strings.NewReader(string(text))); err != nil {
					return err
				}
				if len(kept) == 0 {
					return exit.Hint("pass the scheduler's log, which has lines \"Audit head …\"",
						"--heads %s: no audit head found", heads)
				}
			}
			return a.verifyAudits(args, kept)
		},
	}
	c.Flags().StringVar(&heads, "heads", "",
		"`file` with audit heads from a separate copy of the scheduler's log; - is standard input")
	return c
}

func (a *app) verifyAudits(dirs []string, kept []audit.Head) error {
	var given []audit.Given
	for _, dir := range dirs {
		given = append(given, audit.Given{Name: dir, Open: func() (io.ReadCloser, error) { return openAudit(dir) }})
	}
	report, err := audit.Follow(given, kept)
	if err != nil {
		return broken(err)
	}
	var lacking []string
	for _, gap := range report.Gaps {
		if gap.Whole() && len(dirs) == 1 {
			a.say("%s", gap)
		} else {
			lacking = append(lacking, gap.String())
		}
	}
	if len(lacking) > 0 {
		return &exit.Failure{
			Code: exit.Conflict, Text: "audit log verification failed: " + strings.Join(lacking, "; "),
			Hint: "add the folders of the other schedulers; all lines before the reported ones are intact",
		}
	}
	for _, of := range report.Accounts {
		lines := fmt.Sprintf("%d lines", of.Head.N)
		if of.First > 1 {
			lines = fmt.Sprintf("lines %d to %d (earlier lines are missing)", of.First, of.Head.N)
		}
		if len(dirs) > 1 {
			lines = fmt.Sprintf("%s (%s): %s", of.Name, cmp.Or(of.Of, "scheduler unknown"), lines)
		}
		if err := a.data("%s, all intact\n%s", lines, of.Head); err != nil {
			return err
		}
	}
	pins := fmt.Sprintf("%d lines referenced by later lines or --heads are present", report.Pins)
	if report.Away > 0 {
		pins += fmt.Sprintf("; %d are in removed earlier files", report.Away)
	}
	return a.data("%s", pins)
}

func (a *app) readAudit(dir string, each func(audit.Line) error) error {
	file, err := openAudit(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = audit.Read(file, each)
	return broken(err)
}

func openAudit(dir string) (io.ReadCloser, error) {
	file, err := audit.OpenAccount(dir)
	if err != nil {
		return nil, &exit.Failure{
			Code: exit.NotFound, Text: err.Error(), Hint: "look in the folder audit of the scheduler's --data-dir",
		}
	}
	return file, nil
}

// broken returns an error with the position at which an audit log was changed.
func broken(err error) error {
	var b *audit.Broken
	if errors.As(err, &b) {
		return &exit.Failure{
			Code: exit.Conflict, Text: "audit log verification failed: " + b.Error(),
			Hint: "compare a head stored elsewhere: lines up to a matching head are intact",
		}
	}
	return err
}
