package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cluster/audit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
)

// This file owns `audit`: it reads a scheduler's account of who asked what, on the scheduler's machine.

func (a *app) auditCommand() *cobra.Command {
	var who string
	var refused bool
	c := a.objectFlag(&cobra.Command{
		Use:   "audit DIR",
		Short: "show who asked what of a scheduler that speaks TLS",
		Long: "Reads the account that a scheduler with --tls keeps in the folder audit of its --data-dir: each call that\n" +
			"changes something, twice, before it and with its outcome; each read of another's env, command or output; each\n" +
			"refusal. It is read on the scheduler's machine, by whoever may read that folder.",
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
					return show.Object(a.stdout, a.style.Format, l)
				}
				return a.data("%d %s %s %s %s: %s", l.N, l.At, cmp.Or(l.Who, "-"), cmp.Or(l.From, "-"),
					strings.TrimSpace(l.Call+" "+l.What), l.Outcome)
			})
		},
	})
	c.Flags().StringVar(&who, "who", "", "only of those whose identity has this `text` in it")
	c.Flags().BoolVar(&refused, "refused", false, "only what was refused")
	c.AddCommand(a.auditVerifyCommand())
	return c
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var heads string
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "check that nothing in the account was changed or left out",
		Long: "Checks that each line follows from the one before. Whoever can write the file could make all of it again,\n" +
			"so give it what was kept elsewhere: the scheduler tells its log now and then the last line and its hash\n" +
			"(\"Audit head …\"), and --heads reads that log, or any text with such lines.",
		Example: "  synapse-cli audit verify data/audit\n" +
			"  synapse-cli audit verify data/audit --heads scheduler.log",
		Args: named("folder", "DIR", 1),
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
					return usageHint("it is the log of the scheduler, with lines \"Audit head …\"",
						"--heads %s: there is no head in it", heads)
				}
			}
			return a.verifyAudit(args[0], kept)
		},
	}
	c.Flags().StringVar(&heads, "heads", "", "a `file` with heads that were kept elsewhere; - is standard input")
	return c
}

func (a *app) verifyAudit(dir string, kept []audit.Head) error {
	file, err := openAudit(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	first, head, err := audit.Verify(file, kept)
	if err != nil {
		return broken(err)
	}
	lines := fmt.Sprintf("%d lines", head.N)
	if first > 1 {
		lines = fmt.Sprintf("lines %d to %d, what came before is not here", first, head.N)
	}
	return a.data("%s, each as it was written; %d heads that were kept elsewhere fit\n%s", lines, len(kept), head)
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
		return nil, &failure{
			code: exitNotFound, text: err.Error(), hint: "it is in the folder audit of the scheduler's --data-dir",
		}
	}
	return file, nil
}

// broken says where an account is not what was written.
func broken(err error) error {
	var b *audit.Broken
	if errors.As(err, &b) {
		return &failure{
			code: exitConflict, text: "the account is not as it was written: " + b.Error(),
			hint: "what is before that line can be relied on as far as a head that was kept elsewhere fits",
		}
	}
	return err
}
