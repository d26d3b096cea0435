package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file owns `top`: the cluster on one page, again and again on a terminal, once anywhere else.

// On a terminal another page is shown while top runs, and what was there comes back when it ends.
const (
	otherPage = "\x1b[?1049h\x1b[?25l" // and no cursor
	firstPage = "\x1b[?25h\x1b[?1049l"
	fromAbove = "\x1b[H"
	lineEnd   = "\x1b[K\r\n" // the terminal is raw meanwhile
	restEmpty = "\x1b[J"
)

// livePhases are those of jobs that are not over.
var livePhases = []string{
	messages.PhaseQueued, messages.PhaseHeld, messages.PhaseReserving, messages.PhaseDeciding, messages.PhaseStarting,
	messages.PhaseRunning, messages.PhaseStopping, messages.PhaseClosing,
}

func (a *app) topCommand() *cobra.Command {
	once, every, most := false, 2*time.Second, 0
	c := &cobra.Command{
		Use:   "top",
		Short: "show a live overview of the cluster",
		Long: "Shows nodes, GPUs and unfinished jobs: running jobs with the most GPUs first, then waiting jobs in\n" +
			"their order. On a terminal, the page refreshes every two seconds until q or Ctrl-C; otherwise it\n" +
			"is printed once.",
		Example: "  synapse-cli top\n  synapse-cli top --once | head -20",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if every < time.Second {
				return exit.Hint("use at least 1s: each refresh reads all jobs and nodes",
					"--every %s: too short", every)
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				if once || a.style.Width == 0 {
					return a.topOnce(ctx, c, most)
				}
				return a.topLive(ctx, c, every)
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&once, "once", false, "print one page and exit, also on a terminal")
	f.DurationVar(&every, "every", every, "refresh interval")
	f.IntVar(&most, "jobs", most, "maximum number of jobs to show; 0 shows all, or as many as fit on the terminal")
	return c
}

// topOnce writes one page.
func (a *app) topOnce(ctx context.Context, c *client.Client, most int) error {
	page, err := a.topPage(ctx, c, most)
	if err != nil {
		return err
	}
	return a.page(strings.TrimSuffix(page, "\n"))
}

// topPage asks for all that a page shows. An answer to each question is true of its own moment.
func (a *app) topPage(ctx context.Context, c *client.Client, most int) (string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return "", err
	}
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Phases: livePhases})
	if err != nil {
		return "", err
	}
	style := a.style
	style.NowMs = time.Now().UnixMilli()
	var page strings.Builder
	err = show.Top(&page, style, c.Server(), nodes, jobs, most)
	return page.String(), err
}

// topLive shows page after page. A scheduler that does not answer is told on the page, and asked again.
func (a *app) topLive(ctx context.Context, c *client.Client, every time.Duration) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := a.raw(otherPage); err != nil {
		return err
	}
	defer func() { _ = a.raw(firstPage) }() // the terminal may be gone
	if here, is := a.stdin.(*os.File); is && term.IsTerminal(int(here.Fd())) {
		before, err := term.MakeRaw(int(here.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(here.Fd()), before)
	}
	go a.quitKeys(cancel)
	for {
		lines := 24
		if file, ok := a.stdout.(*os.File); ok {
			if width, height, err := term.GetSize(int(file.Fd())); err == nil {
				a.style.Width, lines = width, height
			}
		}
		page, err := a.topPage(ctx, c, max(lines-show.TopHead-1, 1))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			page = show.Lines("scheduler not reachable: " + err.Error() + "\n")
		}
		if err := a.raw(fromAbove + strings.ReplaceAll(visible(page), "\n", lineEnd) + restEmpty); err != nil {
			return nil // nobody looks any more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// quitKeys ends a page when q or Ctrl-C is typed, which a raw terminal hands on as any other key.
func (a *app) quitKeys(quit func()) {
	keys := make([]byte, 64)
	for {
		n, err := a.stdin.Read(keys)
		if bytes.ContainsAny(keys[:n], "qQ\x03") {
			quit()
			return
		}
		if err != nil {
			return // no keys come; Ctrl-C is a signal then
		}
	}
}

func (a *app) raw(text string) error {
	_, err := a.stdout.Write([]byte(text))
	return err
}
