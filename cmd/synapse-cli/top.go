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

// This file implements `top`, which shows the cluster on one page: repeatedly on a terminal, and otherwise once.

// On a terminal, top uses the alternate screen, and restores the old content at the end.
const (
	otherPage = "\x1b[?1049h\x1b[?25l" // and hides the cursor
	firstPage = "\x1b[?25h\x1b[?1049l"
	fromAbove = "\x1b[H"
	lineEnd   = "\x1b[K\r\n" // the terminal is in raw mode
	restEmpty = "\x1b[J"
)

// livePhases lists the phases of unfinished jobs.
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
			"the order of the queue. On a terminal, the page refreshes every two seconds until q or Ctrl-C;\n" +
			"otherwise it is printed once.",
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
	f.IntVar(&most, "jobs", most, "maximum number of jobs to show; 0 shows as many as fit on the terminal, or all "+
		"without a terminal")
	a.topKinds(c)
	return c
}

// topOnce prints one page.
func (a *app) topOnce(ctx context.Context, c *client.Client, most int) error {
	page, err := a.topPage(ctx, c, most)
	if err != nil {
		return err
	}
	return a.page(strings.TrimSuffix(page, "\n"))
}

// topPage requests the data of a page. The answers may be from slightly different times.
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

// topLive shows one page after the other. If the scheduler does not answer, the page says so, and the next one
// tries again.
func (a *app) topLive(ctx context.Context, c *client.Client, every time.Duration) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := a.raw(otherPage); err != nil {
		return err
	}
	defer func() { _ = a.raw(firstPage) }() // the terminal may be closed
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
			return nil // the reader is gone
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// quitKeys ends top on q or Ctrl-C, which a raw terminal passes on as a normal key.
func (a *app) quitKeys(quit func()) {
	keys := make([]byte, 64)
	for {
		n, err := a.stdin.Read(keys)
		if bytes.ContainsAny(keys[:n], "qQ\x03") {
			quit()
			return
		}
		if err != nil {
			return // no keys arrive, and Ctrl-C is a signal
		}
	}
}

func (a *app) raw(text string) error {
	_, err := a.stdout.Write([]byte(text))
	return err
}
