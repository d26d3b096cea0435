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
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/cluster/web"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/messages"
)

// This file owns `web`: the page that shows the cluster, served on this machine's loop over the connection that the
// command line has. So a browser meets no certificate that it does not know, and sees what its user may see.

func (a *app) webCommand() *cobra.Command {
	listen, quiet := "127.0.0.1:0", false
	c := &cobra.Command{
		Use:   "web",
		Short: "show the cluster in a browser",
		Long: "Serves a page on this machine that shows the cluster as it changes, until Ctrl-C: the map of all machines,\n" +
			"jobs and why they wait, machines, queues, events, and what tasks write. Who looks at it sees and does what\n" +
			"whoever runs this command may. The link that is printed lets one browser in, once; then the next one is.",
		Example: "  synapse-cli web\n" +
			"  synapse-cli web --no-open --listen 127.0.0.1:8080    # then, at your desk: ssh -L 8080:127.0.0.1:8080 HEAD",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !onLoop(listen) {
				return usageHint("--listen: "+listen+" can be reached from other machines, in the clear",
					"name a port of this machine, as in 127.0.0.1:8080, and forward it with ssh -L")
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.web(ctx, c, listen, quiet) })
		},
	}
	c.Flags().StringVar(&listen, "listen", listen, "the address of the page, on this machine's loop")
	c.Flags().BoolVar(&quiet, "no-open", false, "print the link and start no browser")
	return c
}

// onLoop reports whether an address is one that only this machine reaches.
func onLoop(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (a *app) web(ctx context.Context, c *client.Client, listen string, quiet bool) error {
	if _, err := c.Cluster(ctx, &api.Cluster{}); err != nil { // before a page is promised that cannot show anything
		return err
	}
	door, err := net.Listen("tcp", listen)
	if err != nil {
		return &failure{code: exitUsage, text: "--listen: " + err.Error(), hint: "another port may be free"}
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
	page := web.New(web.Options{
		API: c, Program: a.name, Said: saidOf,
		Answers: func(host string) bool { return host == door.Addr().String() || host == "localhost:"+port },
		Entered: func(next string) { a.say("A browser came in. For another one: %s", link(next)) },
	})
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	a.say("The cluster is shown at %s", link(page.Secret()))
	if !quiet {
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
		return server.Close() // what is open is a stream, and would never end by itself
	}
}

// saidOf is what an error means, and what to do about it, in a line.
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

// browse has the desk open a link, where there is a desk. Where it cannot, the link is on the screen.
func browse(link string) {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if opener := exec.Command(name, args...); opener.Start() == nil {
		go func() { _ = opener.Wait() }() // it is not ours to judge
	}
}
