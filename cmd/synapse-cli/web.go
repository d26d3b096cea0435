package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/webjobs"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/web"
)

// This file implements `web`, which serves the web UI on loopback over the connection of the command line. The
// browser needs no certificate, and shows what the user may see.

// webFlags holds the flags of `web`.
type webFlags struct {
	listen, record, replay, out string
	quiet                       bool
}

func (a *app) webCommand() *cobra.Command {
	w := &webFlags{}
	c := &cobra.Command{
		Use:   "web",
		Short: "open the web UI in a browser",
		Long: "Serves the web UI on this host until Ctrl-C. It shows nodes, jobs with their reasons, queues,\n" +
			"events, and the output of tasks. The browser has the permissions of the user who runs this command.\n" +
			"The printed link works once, in one browser. After it is used, the command prints a new link.\n\n" +
			"Use --record to record the web UI to a file until Ctrl-C, as a user with the role viewer sees it.\n" +
			"The file contains no output, commands or environments of jobs. Use --replay to show such a file\n" +
			"without a cluster. Add --out to export the file as a folder that a browser can open without a\n" +
			"server.",
		Example: "  synapse-cli web\n" +
			"  synapse-cli web --no-open --listen 127.0.0.1:8080    # on your computer: ssh -L 8080:127.0.0.1:8080 " +
			"HEAD\n" +
			"  synapse-cli web --record monday.record\n" +
			"  synapse-cli web --replay monday.record --out monday  # then open monday/index.html",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case !onLoop(w.listen):
				return exit.Hint("use a loopback address such as 127.0.0.1:8080, and forward it with ssh -L",
					"--listen %s: other hosts could connect without encryption", w.listen)
			case w.record != "" && w.replay != "":
				return exit.Usage("--record and --replay cannot be combined")
			case w.out != "" && w.replay == "":
				return exit.Hint("add --replay FILE", "--out requires --replay")
			case w.replay != "":
				return a.replayPage(w)
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				if w.record != "" {
					return a.recordPage(ctx, c, w.record)
				}
				return a.web(ctx, c, w)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&w.listen, "listen", "127.0.0.1:0", "listening address of the web UI; it must be on the loopback "+
		"interface")
	f.BoolVar(&w.quiet, "no-open", false, "print the link without opening a browser")
	f.StringVar(&w.record, "record", "", "new `file` to record the web UI to, as a viewer sees it, instead of "+
		"showing it")
	f.StringVar(&w.replay, "replay", "", "show the recording in this `file`, without a cluster")
	f.StringVar(&w.out, "out", "", "new `folder` to export the file of --replay to, instead of showing it")
	return c
}

// onLoop reports whether an address is a loopback address.
func onLoop(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (a *app) web(ctx context.Context, c *client.Client, w *webFlags) error {
	if _, err := c.Cluster(ctx, &api.Cluster{}); err != nil { // before a page is announced that could show nothing
		return err
	}
	return a.servePage(ctx, w, "Web UI", web.Options{API: c, Files: webjobs.Files{}})
}

// servePage serves a page on loopback until Ctrl-C.
func (a *app) servePage(ctx context.Context, w *webFlags, what string, o web.Options) error {
	door, err := net.Listen("tcp", w.listen)
	if err != nil {
		return &exit.Failure{Code: exit.Misuse, Text: "--listen: " + err.Error(), Hint: "use another port"}
	}
	defer door.Close()
	_, port, err := net.SplitHostPort(door.Addr().String())
	if err != nil {
		return err
	}
	link := func(secret string) string {
		return (&url.URL{Scheme: "http", Host: door.Addr().String(), Path: "/",
			RawQuery: url.Values{"secret": {secret}}.Encode()}).String()
	}
	o.Program, o.Said = a.name, saidOf
	o.Answers = func(host string) bool { return host == door.Addr().String() || host == "localhost:"+port }
	o.Entered = func(next string) { a.say("A browser has connected. Link for another browser: %s", link(next)) }
	page := web.New(o)
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	a.say("%s at %s", what, link(page.Secret()))
	if !w.quiet {
		browse(link(page.Secret()))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(door) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close() // open streams would never end by themselves
	}
}

// recordPage records what a viewer may see, until Ctrl-C.
func (a *app) recordPage(ctx context.Context, c *client.Client, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &exit.Failure{Code: exit.Misuse, Text: "--record: " + err.Error(),
			Hint: "use a file that does not exist yet"}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.say("Recording the view of a viewer to %s until Ctrl-C", path)
	size, full, err := web.Record(ctx, web.Options{API: c, Program: a.name, Said: saidOf}, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if full {
		a.say("Recording ends: the size limit for a browser is reached")
	}
	a.say("%s has %d KB; `%s web --replay %s` shows it", path, (size+1023)>>10, a.name, show.Command(path))
	return nil
}

// replayPage shows a recording, or writes it as a folder.
func (a *app) replayPage(w *webFlags) error {
	file, err := os.Open(w.replay)
	if err != nil {
		return &exit.Failure{Code: exit.NotFound, Text: "--replay: " + err.Error()}
	}
	made, err := web.Replay(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return &exit.Failure{Code: exit.Misuse, Text: "--replay: " + w.replay + ": " + err.Error()}
	}
	if w.out == "" {
		return a.servePage(context.Background(), w, "Recording", web.Options{Made: made})
	}
	if err := os.Mkdir(w.out, 0o755); err != nil {
		return &exit.Failure{Code: exit.Misuse, Text: "--out: " + err.Error(),
			Hint: "use a folder that does not exist yet"}
	}
	for name, text := range made { //order: each file is independent
		if err := os.WriteFile(filepath.Join(w.out, name), text, 0o644); err != nil {
			return err
		}
	}
	a.say("Open %s in a browser", filepath.Join(w.out, "index.html"))
	return nil
}

// saidOf returns the code of an error, and its text with the hint in one line.
func saidOf(err error) (messages.Code, string) {
	var e *client.Error
	switch {
	case !errors.As(err, &e):
		return messages.Code_CODE_UNSPECIFIED, err.Error()
	case e.Hint == "":
		return e.Code, e.Text
	}
	return e.Code, e.Text + " (" + e.Hint + ")"
}

// browse opens a link in the desktop's browser, if there is one. The link is also printed.
func browse(link string) {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if opener := exec.Command(name, args...); opener.Start() == nil {
		go func() { _ = opener.Wait() }() // a failure is ignored
	}
}
