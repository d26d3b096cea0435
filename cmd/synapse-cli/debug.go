package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
)

// This file implements `debug bundle`, which collects information about a cluster in one file for a person who
// helps remotely. It contains only what the user may see, and no variables or commands of jobs.

const (
	bundlePart    = 16 << 20         // maximum size of a part
	bundleWithin  = 30 * time.Second // time limit of each part
	bundleExplain = 20               // maximum number of explained jobs
	bundleLines   = "20000"          // lines of the log
)

// bundleAsks lists the commands of this program whose output is stored.
var bundleAsks = []struct{ file, command string }{
	{"version.txt", "version"}, {"whoami.txt", "whoami"},
	{"nodes.txt", "get nodes -o wide"}, {"nodes.json", "get nodes -o json"},
	{"jobs.txt", "get jobs -o wide"}, {"starts.txt", "get jobs --start"}, {"queues.txt", "get queues"},
	{"events.txt", "events --since 24h"}, {"history.txt", "history --since 24h"}, {"top.txt", "top --once"},
}

func (a *app) debugCommand() *cobra.Command {
	c := &cobra.Command{Use: "debug", Short: "collect a support bundle", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	file, config := "", "/etc/synapse"
	bundle := &cobra.Command{
		Use:   "bundle",
		Short: "write a support bundle with cluster state, metrics, local logs and settings",
		Long: "Writes a .tar.gz with the state that the scheduler shows you: nodes, jobs, queues, events, why jobs\n" +
			"wait, and the last day of history. The bundle also contains the Prometheus metrics if the scheduler\n" +
			"uses plaintext. It contains the last day of Synapse's log on this host, and this host's settings\n" +
			"files without passwords. The bundle does not contain environment variables, commands or scripts of\n" +
			"jobs. If a part cannot be collected, the file missing.txt in the bundle has the reason. Review the\n" +
			"bundle before sharing it.",
		Example: "  synapse-cli debug bundle\n  synapse-cli debug bundle --out bundle.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				file = "synapse-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return a.bundle(file, config)
		},
	}
	bundle.Flags().StringVar(&file, "out", "",
		"`file` to write, which must not exist (default: a name with the current time)")
	bundle.Flags().StringVar(&config, "settings", config, "`folder` of this host's settings files")
	c.AddCommand(bundle)
	return c
}

// parts holds the parts of a bundle, and the parts that are missing.
type parts struct {
	to      *tar.Writer
	at      time.Time
	missing strings.Builder
	err     error // of writing the file
}

// add stores a part, or why it is missing.
func (p *parts) add(name string, text []byte, why error) {
	if why != nil {
		fmt.Fprintf(&p.missing, "%s: %v\n", name, why)
	}
	if len(text) == 0 || p.err != nil {
		return
	}
	text = text[:min(len(text), bundlePart)]
	p.err = p.to.WriteHeader(&tar.Header{Name: "synapse/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: p.at})
	if p.err == nil {
		_, p.err = p.to.Write(text)
	}
}

// bundle writes the file, readable only by the user.
func (a *app) bundle(path, config string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(file)
	p := &parts{to: tar.NewWriter(packed), at: time.Now()}
	for _, ask := range bundleAsks {
		text, why := a.ask(strings.Fields(ask.command)...)
		p.add(ask.file, text, why)
	}
	a.explainAll(p)
	text, why := a.figures()
	p.add("metrics.txt", text, why)
	p.log()
	p.settings(config)
	p.add("missing.txt", []byte(p.missing.String()), nil)
	err = errors.Join(p.err, p.to.Close(), packed.Close(), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	a.say("wrote %s: review it before sharing it", path)
	return nil
}

// ask runs a command of this program with the connection of this run.
func (a *app) ask(command ...string) ([]byte, error) {
	args := append([]string{"synapse-cli", "--utc"}, command...) // as in the logs of the programs
	a.connection.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	var out, errs bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &errs, a.lookup); code != 0 {
		return out.Bytes(), fmt.Errorf("exit %d: %s", code, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// explainAll stores why the first waiting jobs wait.
func (a *app) explainAll(p *parts) {
	err := a.with(func(ctx context.Context, c *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, bundleWithin)
		defer cancel()
		jobs, err := c.Jobs(ctx, &messages.ListJobs{Phases: []string{messages.PhaseQueued}})
		if err != nil {
			return err
		}
		for _, j := range jobs[:min(len(jobs), bundleExplain)] {
			text, why := a.ask("explain", j.GetRecord().GetId())
			p.add("explain/"+j.GetRecord().GetId()+".txt", text, why)
		}
		return nil
	})
	p.add("explain", nil, err)
}

// figures returns the Prometheus metrics. With TLS they require a token or certificate of a viewer, as
// docs/reference/metrics.md explains.
func (a *app) figures() ([]byte, error) {
	c := a.config
	if c.TLS != "" || c.Token != "" || c.CA != "" || c.Cert != "" {
		return nil, errors.New("skipped because the scheduler uses TLS: fetch the metrics as in " +
			"docs/reference/metrics.md")
	}
	server, _, _ := strings.Cut(c.Server, ",")
	ctx, cancel := context.WithTimeout(context.Background(), bundleWithin)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, bundlePart))
	if err == nil && got.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", got.Status)
	}
	return text, err
}

// log stores the log of Synapse's systemd units on this host.
func (p *parts) log() {
	ctx, cancel := context.WithTimeout(context.Background(), bundleWithin)
	defer cancel()
	for _, unit := range []string{"synapse-scheduler", "synapse-node"} {
		text, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "--since=-24h", "--lines="+bundleLines,
			"--unit="+unit).Output()
		if err == nil && len(text) == 0 {
			err = errors.New("no log lines of the last day on this host")
		}
		p.add("log/"+unit+".txt", text, err)
	}
}

// settings stores this host's settings files without passwords.
func (p *parts) settings(folder string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("no settings files in " + folder)
	}
	p.add("settings", nil, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		p.add("settings/"+filepath.Base(path), withoutSecrets(text), err)
	}
}

var (
	passwordInURL = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(://[^:/@\s]*:)[^@\s]*@`)
	})
	secretSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?mi)^(\s*[#-]*\s*[\w.-]*(?:password|passwd|secret|token|key)[\w.-]*\s*[:=]\s*)([^\s/#].*)$`)
	})
)

// withoutSecrets removes passwords from URLs, and the values of keys that name a secret, except file paths.
func withoutSecrets(text []byte) []byte {
	return secretSetting().ReplaceAll(passwordInURL().ReplaceAll(text, []byte("${1}xxxxx@")), []byte("${1}xxxxx"))
}
