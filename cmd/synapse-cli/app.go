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
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurmcmd"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file owns one run of the program: the tree of commands, the connection's
// settings, and how the run ends.

// app is one run.
type app struct {
	name       string // synapse-cli or synctl
	stdin      io.Reader
	stdout     io.Writer // as they are: for what a job writes, and for terminals
	stderr     io.Writer
	out        io.Writer // data, to stdout
	errs       io.Writer // all else, to stderr
	lookup     func(string) (string, bool)
	mine       func(path string) bool // reports whether a socket of a scheduler is there, and lets us in
	config     client.Config
	connection *pflag.FlagSet // the flags that config is made of
	style      show.Style
	retryMs    int64
	completing bool          // for a shell, at a keystroke
	documents  int           // written so far
	begun      bool          // a command runs: from here on an error is not one of the command line
	chance     time.Duration // secondChance, but for tests
	same       time.Duration // sameInterrupt, but for tests
}

const seedName = "synctl"

// run is the whole program without its process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, lookup func(string) (string, bool)) int {
	return newApp(stdin, stdout, stderr, lookup).execute(args)
}

// newApp is a run that has not begun.
func newApp(stdin io.Reader, stdout, stderr io.Writer, lookup func(string) (string, bool)) *app {
	a := &app{name: "synapse-cli", stdin: stdin, stdout: stdout, stderr: stderr, lookup: lookup, mine: unixsocket.Mine,
		chance: secondChance, same: sameInterrupt}
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
	root := a.root()
	root.SetArgs(args[1:])
	a.stopAtScript(root, args[1:])
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	a.refuseShells(root)
	err := root.Execute()
	if err != nil && !a.begun {
		err = usageError(root, args[1:], err)
	}
	return a.end(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   a.name,
		Short: "submit, watch and stop gangs of training tasks on a Synapse cluster",
		Long: "Client for a Synapse scheduler: submits jobs, shows why they wait, follows and stops them, and\n" +
			"manages nodes. The scheduler's address (or several) comes from --server, SYNAPSE_SERVER, the file\n" +
			"in --config or SYNAPSE_CONFIG, or the cluster of the last `login`.\n\n" +
			exitHelp,
		Example: "  synapse-cli up --nodes 4 --gpus 8          # a cluster on this host\n" +
			"  synapse-cli submit job.yaml --wait\n" +
			"  synapse-cli submit --gpu 64 --cpu 512 --mem 4Ti --image host -- ./train.sh\n" +
			"  synapse-cli explain JOB                    # why is it pending?",
		Version:           versionOf(),
		Args:              cobra.NoArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.begin,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(refusedFlag)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	a.connection = root.PersistentFlags()
	a.connectionFlags(a.connection)
	a.completeFlag(root, contextFlag, a.completeContexts)
	if a.name == seedName {
		a.seedFlags(root)
	}
	root.SetHelpCommand(helpCommand())
	root.AddCommand(a.submitCommand(), a.getCommand(), a.describeCommand(), a.explainCommand(), a.logsCommand(),
		a.cancelCommand(), a.waitCommand(), a.watchCommand(), a.eventsCommand(),
		a.topCommand(), a.holdCommand(), a.releaseCommand(),
		a.requeueCommand(), a.runCommand(), a.execCommand(), a.cpCommand(), a.portForwardCommand(),
		a.priorityCommand(), a.updateCommand(), a.applyCommand(), a.suspendCommand(), a.attachCommand(),
		a.drainCommand(), a.cordonCommand(), a.uncordonCommand(), a.removeCommand(), a.noteCommand(), a.historyCommand(),
		a.efficiencyCommand(),
		a.simulateCommand(), a.upCommand(), a.initCommand(), a.certifyCommand(), a.tokenCommand(),
		a.whoamiCommand(), a.loginCommand(), a.logoutCommand(), a.contextsCommand(), a.contextCommand(), a.auditCommand(),
		a.deployCommand(), a.webCommand(), a.debugCommand(), a.slurmCommand(),
		a.versionCommand(), a.docsCommand())
	return root
}

// begin runs before every command, once its flags and arguments are valid.
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
	if err := a.style.Check(); err != nil {
		return exit.Usage("%s", err)
	}
	return nil
}

// connect makes the connection that a command needs. Its settings are read only here: `up` writes the file that
// SYNAPSE_CONFIG may already name.
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

// with runs a command's work with a connection.
func (a *app) with(work func(context.Context, *client.Client) error) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return work(context.Background(), c)
}

// say writes for people, not for programs. The text may contain what other users wrote.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.errs, fmt.Sprintf(format, inOneLine(args)...))
}

// data writes a line of the requested output.
func (a *app) data(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format+"\n", inOneLine(args)...)
	return err
}

// page writes lines of the requested output that were made here, of texts that are in one line each.
func (a *app) page(text string) error {
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// inOneLine writes out what would begin another line in whatever is shown: others may have written it.
func inOneLine(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		if _, width := arg.(int); !width { // which may also stand for a star in the format
			out[i] = oneLine{arg}
		}
	}
	return out
}

// oneLine is a value that is shown on one line, by whatever verb.
type oneLine struct{ value any }

// Format shows it.
func (o oneLine) Format(to fmt.State, verb rune) {
	_, _ = io.WriteString(to, messages.OneLine(fmt.Sprintf(fmt.FormatString(to, verb), o.value)))
}

// next begins a document of standard output. Of YAML each but the first needs a mark before it.
func (a *app) next() error {
	a.documents++
	if a.documents == 1 || a.style.Format != "yaml" {
		return nil
	}
	return a.data("---")
}

// apart begins a page of standard output. Of text each but the first needs an empty line before it.
func (a *app) apart() error {
	if err := a.next(); err != nil || a.documents == 1 || a.style.Format != "" {
		return err
	}
	return a.page("")
}

// tell reports what failed, while the command goes on.
func (a *app) tell(err error) {
	text, _ := exit.Words(err)
	a.say("%s: %s", a.name, text)
}

// lost reports that the scheduler is away, while a command waits for it.
func (a *app) lost(err error) { a.say("%s: %s; waiting for the scheduler to return", a.name, err) }

// listFlags adds the flags of lists.
func (a *app) listFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&a.style.Format, "output", "o", "", "output `format`: "+strings.Join(show.Formats, ", "))
	f.BoolVar(&a.style.NoHeaders, "no-headers", false, "omit the header line")
	a.completeFlag(c, "output", cobra.FixedCompletions(show.Formats, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVarP(&a.style.Quiet, "quiet", "q", false, "print only IDs")
	f.BoolVar(&a.style.Parsable, "parsable", false, "print untruncated fields separated by |, for scripts")
}
