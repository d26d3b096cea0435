package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/localtime"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurmcmd"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file runs the program: the commands, the connection settings, and the end of a run.

// app holds the state of one run.
type app struct {
	name       string // synapse-cli or synctl
	stdin      io.Reader
	stdout     io.Writer // unquoted, for the output of jobs and for terminals
	stderr     io.Writer
	out        io.Writer // data, to stdout
	errs       io.Writer // everything else, to stderr
	lookup     func(string) (string, bool)
	mine       func(path string) bool // reports whether a scheduler's socket exists and permits access
	config     client.Config
	connection *pflag.FlagSet // the connection flags, which contexts and the environment also set
	style      show.Style
	zone       *time.Location // of the user
	utc        bool           // --utc
	retryMs    int64
	completing bool          // completion for a shell
	documents  int           // documents written so far
	prefixed   bool          // --prefix of logs
	timing     timing        // --timestamps and --since of logs
	begun      bool          // a command runs, so later errors are not usage errors
	chance     time.Duration // secondChance, except in tests
	same       time.Duration // sameInterrupt, except in tests
}

const seedName = "synctl"

// run runs the program and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, lookup func(string) (string, bool)) int {
	return newApp(stdin, stdout, stderr, lookup).execute(args)
}

// newApp returns the state of a run before its start.
func newApp(stdin io.Reader, stdout, stderr io.Writer, lookup func(string) (string, bool)) *app {
	a := &app{name: "synapse-cli", stdin: stdin, stdout: stdout, stderr: stderr, lookup: lookup, mine: unixsocket.Mine,
		chance: secondChance, same: sameInterrupt, zone: time.Local}
	a.out, a.errs = &quoting{to: stdout, colours: &a.style.Colour}, &quoting{to: stderr}
	return a
}

func (a *app) execute(args []string) int {
	if filepath.Base(args[0]) == seedName {
		a.name = seedName
	}
	if name := filepath.Base(args[0]); slices.Contains(slurmcmd.Names(), name) {
		return a.asSlurm(name, args[1:])
	}
	root := a.root(args[1:]...)
	root.SetArgs(args[1:])
	if len(args) > 1 && strings.HasPrefix(args[1], cobra.ShellCompRequestCmd) { // other runs need no completions
		a.completeEverywhere(root)
	}
	a.stopAtScript(root, args[1:])
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	a.refuseShells(root)
	err := root.Execute()
	if err != nil && !a.begun {
		err = usageError(root, args[1:], err)
		a.errorsAsAsked(args[1:])
	}
	return a.end(err)
}

// root returns the command of the program, with the commands that a command line needs. Without arguments, it returns
// all commands.
func (a *app) root(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   a.name,
		Short: "submit, watch and stop gangs of training tasks on a Synapse cluster",
		Long: "Client for a Synapse scheduler: submits jobs, shows why they wait, follows and stops them, and\n" +
			"manages nodes. The addresses of the schedulers come from the first of these that is set: --server,\n" +
			"SYNAPSE_SERVER, the file of --config or SYNAPSE_CONFIG, or the cluster of the last `login`.\n\n" +
			exitHelp,
		Example: "  synapse-cli up --nodes 4 --gpus 8          # run a cluster on this host\n" +
			"  synapse-cli submit job.yaml --wait\n" +
			"  synapse-cli submit --gpu 64 --cpu 512 --mem 4Ti --image host -- ./train.sh\n" +
			"  synapse-cli explain JOB                    # show why a job waits",
		Version:           versionOf(),
		Args:              cobra.NoArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.begin,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(refusedFlag)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	a.connection = pflag.NewFlagSet("", pflag.ContinueOnError)
	a.connectionFlags(a.connection)
	root.PersistentFlags().AddFlagSet(a.connection)
	root.PersistentFlags().BoolVar(&a.utc, "utc", false, "show times in UTC instead of your time zone")
	a.completeFlag(root, contextFlag, a.completeContexts)
	if a.name == seedName {
		a.seedFlags(root)
	}
	root.SetHelpCommand(helpCommand())
	for _, c := range chosen(args) {
		root.AddCommand(c.make(a))
	}
	return root
}

// begin runs before every command, after its flags and arguments were validated.
func (a *app) begin(c *cobra.Command, _ []string) error {
	a.begun = true
	if err := refusedEmpty(c.Flags()); err != nil {
		return err
	}
	if file, is := a.stdout.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			a.style.Width = width
		}
		noColour, set := a.lookup("NO_COLOR")
		kind, _ := a.lookup("TERM")
		a.style.Colour = (!set || noColour == "") && kind != "dumb"
	}
	a.style.NowMs = time.Now().UnixMilli()
	if !a.utc {
		a.style.Zone = a.zone
	}
	if err := a.style.Check(); err != nil {
		return exit.Usage("%s", err)
	}
	return nil
}

// connect opens the connection for a command. It reads the settings only when a command needs them, because
// SYNAPSE_CONFIG may name a file that `up` has yet to write.
func (a *app) connect() (*client.Client, error) {
	if err := a.connectionSettings(a.connection, true); err != nil {
		return nil, err
	}
	a.config.Retry = time.Duration(a.retryMs) * time.Millisecond
	if a.config.Waiting = a.lost; a.completing {
		a.config.Retry, a.config.Waiting = 0, nil
	}
	return client.Dial(a.config)
}

// with runs the work of a command with a connection.
func (a *app) with(work func(context.Context, *client.Client) error) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return work(context.Background(), c)
}

// say writes a text for the user to stderr. The text may contain text of other users.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.errs, fmt.Sprintf(format, inOneLine(args)...))
}

// local converts the UTC times in a text to the time zone of the user.
func (a *app) local(text string) string {
	return localtime.Of(text, a.style.Zone, time.Now().UnixMilli())
}

// data writes a line of the requested output.
func (a *app) data(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format+"\n", inOneLine(args)...)
	return err
}

// page writes several lines of the requested output. Each value in them is already on one line.
func (a *app) page(text string) error {
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// inOneLine wraps arguments so that line breaks in them are escaped. Other users may have written them.
func inOneLine(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		if _, width := arg.(int); !width { // an int may be a width (*) in the format
			out[i] = oneLine{arg}
		}
	}
	return out
}

// oneLine formats a value on one line, with any verb.
type oneLine struct{ value any }

// Format formats the value.
func (o oneLine) Format(to fmt.State, verb rune) {
	_, _ = io.WriteString(to, messages.OneLine(fmt.Sprintf(fmt.FormatString(to, verb), o.value)))
}

// next starts a document of standard output. In YAML, each document except the first needs a separator.
func (a *app) next() error {
	a.documents++
	if a.documents == 1 || a.style.Format != "yaml" {
		return nil
	}
	return a.data("---")
}

// apart starts a part of standard output. In text, each part except the first has an empty line before it.
func (a *app) apart() error {
	if err := a.next(); err != nil || a.documents == 1 || a.style.Format != "" {
		return err
	}
	return a.page("")
}

// tell reports a failure while the command continues.
func (a *app) tell(err error) {
	if a.style.Format == "json" {
		a.endAsJSON(err)
		return
	}
	text, _ := exit.Words(err)
	a.say("%s: %s", a.name, text)
}

// lost reports that the scheduler is unreachable while a command waits for it.
func (a *app) lost(err error) { a.say("%s: %s; waiting for the scheduler to return", a.name, err) }

// listFlags adds the flags of lists.
func (a *app) listFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&a.style.Format, "output", "o", "", "output `format`: "+strings.Join(show.Formats, ", ")+", "+
		show.TemplateFormats)
	f.BoolVar(&a.style.NoHeaders, "no-headers", false, "omit the header line")
	a.completeFlag(c, "output", cobra.FixedCompletions(show.Formats, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVarP(&a.style.Quiet, "quiet", "q", false, "print only IDs")
	f.BoolVar(&a.style.Parsable, "parsable", false, "print untruncated fields separated by |, for scripts")
}
