package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/localtime"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `submit`.

// submission holds the options of one submit.
type submission struct {
	specFlags
	secretFlags
	from, requestID                     string
	files                               []string
	wait, attach, allowInfeasible, hold bool
	dryRun                              string // client, server, or empty
	seed                                bool   // behave like the original synctl
	brings                              *script
}

func (a *app) submitCommand() *cobra.Command {
	s := &submission{seed: a.name == seedName}
	c := &cobra.Command{
		Aliases: []string{"create"}, // as in kubectl: create -f FILE
		Use:     "submit [flags] [FILE | - | SCRIPT ARG... | -- COMMAND ARG...]",
		Short:   "submit a job from a file, standard input, a script, or flags",
		Long: "Submits a job from a file (- is standard input), or from flags with the command after --. A file\n" +
			"that begins with #! is a script. The command uploads the script, and each task runs a copy of it in\n" +
			"the image of --image, or directly on the node. Write flags before the script; all words after the\n" +
			"script are its arguments. The command prints the job ID to standard output when the job is safe on\n" +
			"the scheduler's disk.\n\n" +
			"If standard input has several YAML documents, each job is submitted when the next document begins, over\n" +
			"one connection. An error names the document and its line, and the other documents are still submitted.\n" +
			"The first error defines the exit code. The jobs of a file are checked first: if one is wrong, none is\n" +
			"submitted.\n\n" +
			"The resource flags are totals, which are split over nodes. If --replicas is set, --cpu and --mem apply to\n" +
			"each task. --gpu with several --replicas could mean either, and is refused: use --gpus-per-task N, or\n" +
			"--gpus N for a total.\n\n" +
			"If the current nodes could not run the job even if they were idle, the job is rejected with exit code\n" +
			"7, unless --allow-infeasible is set.",
		Example: "  synapse-cli submit job.yaml\n" +
			"  synapse-cli submit job.yaml --attach             # show the output of the job\n" +
			"  synapse-cli submit --gpu 64 --cpu 512 --mem 4Ti --image host -- ./train.sh\n" +
			"  synapse-cli submit --gpu 8 train.sh --epochs 3   # send the script to the nodes\n" +
			"  synapse-cli submit --from JOB                    # submit an earlier job again",
		Args: func(c *cobra.Command, args []string) error { return s.arguments(c, args) },
		RunE: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				return a.submit(s, args[:dash], args[dash:])
			}
			return a.submit(s, args, nil)
		},
		ValidArgsFunction: filesOnly,
	}
	f := c.Flags()
	s.specFlags.add(f)
	s.secretFlags.add(f)
	f.StringArrayVarP(&s.files, "file", "f", nil,
		"job `file`, an alternative to the argument FILE; - is standard input; you can repeat the flag")
	f.StringVar(&s.from, "from", "", "submit a copy of this `job`")
	f.StringVar(&s.requestID, "request-id", "",
		"idempotency key: repeating a submit with the same key and job returns the same job")
	f.BoolVarP(&s.hold, "hold", "H", false, "submit the job held: it starts only after `release JOB`")
	f.BoolVar(&s.wait, "wait", false, "wait until the job ends and exit with its code")
	f.BoolVar(&s.attach, "attach", false,
		"show the job's output until the job ends; press Ctrl-C once to detach, twice to cancel the job")
	f.BoolVar(&s.allowInfeasible, "allow-infeasible", false, "queue the job even if no current node can run it")
	f.StringVar(&s.dryRun, "dry-run", "",
		"validate the job without submitting it; `mode` client (default) checks the job and prints it as a job file; "+
			"mode server asks the scheduler what would happen to the job")
	f.Lookup("dry-run").NoOptDefVal = dryClient
	f.BoolVarP(&a.style.Quiet, "quiet", "q", false, "print only the ID to standard output")
	f.BoolVar(&a.style.Parsable, "parsable", false, "print only the ID to standard output, as --quiet")
	a.objectFlag(c, "name")
	a.completeFlag(c, "from", a.completeJobs)
	a.completeFlag(c, "queue", a.completeQueues)
	a.completeFlag(c, "required", a.completeLevels)
	a.completeFlag(c, "preferred", a.completeLevels)
	a.completeFlag(c, "nodelist", several(a.completeNodes))
	a.completeFlag(c, "exclude", several(a.completeNodes))
	a.completeWords(c, "split", []string{"whole", "any"})
	a.completeWords(c, "network", messages.NetworkWords())
	a.completeWords(c, "launcher", messages.LaunchWords())
	a.completeWords(c, "dry-run", []string{dryClient, dryServer})
	groupFlags(c)
	return c
}

// arguments checks that the job is described in exactly one way.
func (s *submission) arguments(c *cobra.Command, args []string) error {
	files, command := args, []string(nil)
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		files, command = args[:dash], args[dash:]
	}
	files = slices.Concat(s.files, files)
	flag := s.given(c.Flags())
	s.counted, s.prioritised = c.Flags().Changed("replicas"), c.Flags().Changed("priority")
	if s.brings = scriptOf(files, command, flag); s.brings != nil {
		files, command, flag = files[:1], nil, ""
	}
	switch {
	case len(command) == 0 && (flag != "" || len(files) > 1) && isWord(files):
		return exit.Hint("write a command after --, as in `-- "+show.Command(files...)+"`",
			"file %q does not exist", files[0])
	case s.dryRun != "" && s.dryRun != dryClient && s.dryRun != dryServer:
		return exit.Hint("use client, server", "--dry-run %q: unknown value", s.dryRun)
	case s.dryRun != "" && (s.wait || s.attach):
		return exit.Usage("--dry-run cannot be combined with --wait or --attach")
	case len(files) > 1 && len(s.files) < len(files):
		return exit.Hint("use -f FILE for each file", "submit accepts one argument FILE, got %d files", len(files))
	case s.hold && (s.wait || s.attach || s.dryRun != ""):
		return exit.Usage("--hold cannot be combined with --wait, --attach or --dry-run: a held job does not start")
	case len(files) > 0 && s.from != "":
		return exit.Usage("--from and a file cannot be combined")
	case (len(files) > 0 || s.from != "") && len(command) > 0:
		return exit.Hint("write the command into the file", "a command cannot be combined with a file or --from")
	case (len(files) > 0 || s.from != "") && flag != "":
		return exit.Hint("write the value into the file", "%s cannot be combined with a file or --from", flag)
	case len(files) == 0 && s.from == "" && flag == "":
		return exit.Hint("pass a file, - for standard input, or flags such as --gpu 8 --image host -- ./train.sh",
			"job is missing")
	}
	return nil
}

// isWord reports whether the argument looks like a command instead of a job file.
func isWord(files []string) bool {
	if len(files) == 0 || files[0] == "-" || slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(files[0])) {
		return false
	}
	_, err := os.Stat(files[0])
	return err != nil
}

// submit sends each job after all have been read.
func (a *app) submit(s *submission, files, command []string) error {
	if len(s.files) > 0 {
		files = s.files
	}
	d, first, err := a.streamed(s, files)
	if err != nil {
		return err
	}
	if d != nil {
		return a.with(func(ctx context.Context, c *client.Client) error { return a.stream(ctx, c, s, d, first) })
	}
	specs, err := a.describe(s, files, command)
	for _, spec := range specs {
		beginHere(spec)
	}
	if err == nil {
		err = s.nameSecrets(specs, len(files) == 0 && s.from == "" || s.brings != nil)
	}
	switch {
	case err != nil:
		return err
	case len(specs) > 1 && (s.attach || s.requestID != ""):
		return exit.Usage("--attach and --request-id require a file with one job, got %d", len(specs))
	case s.dryRun != "" && (a.style.Quiet || a.style.Parsable || a.style.Format == "name"):
		return exit.Usage("--dry-run cannot be combined with -q, --parsable or -o name")
	case s.dryRun == dryClient:
		return a.files(specs)
	}
	if s.dryRun == "" {
		if err := a.fillSecrets(s, specs); err != nil {
			return err
		}
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		if s.dryRun == dryServer {
			return a.dryRun(ctx, c, s, specs)
		}
		if len(specs) == 1 {
			return a.send(ctx, c, s, specs[0])
		}
		return a.sendAll(ctx, c, s, specs)
	})
}

// beginHere records the current folder for a job on the host's root file system without a workdir.
func beginHere(spec *messages.JobSpec) {
	here, err := os.Getwd()
	if err != nil || spec.GetImage() != messages.HostImage || spec.GetWorkdir() != "" || spec.GetSubmitDir() != "" {
		return
	}
	spec.SubmitDir = here
	if jobfile.Valid(spec) != nil {
		spec.SubmitDir = "" // the path contains characters that a job must not contain
	}
}

// files prints job files that would submit the same jobs.
func (a *app) files(specs []*messages.JobSpec) error {
	if a.style.Format != "json" {
		return show.JobFile(a.out, specs...)
	}
	for _, spec := range specs {
		if err := show.Object(a.out, a.style.Format, jobfile.Format(spec)); err != nil {
			return err
		}
	}
	return nil
}

// The values of --dry-run.
const (
	dryClient = "client"
	dryServer = "server"
)

// dryRun asks the scheduler what would happen to each job. The first refusal defines the exit code.
func (a *app) dryRun(ctx context.Context, c *client.Client, s *submission, specs []*messages.JobSpec) error {
	f := exit.Failures{Tell: a.tell}
	for _, spec := range specs {
		if err := c.Precede(ctx, spec, c.Named); err != nil {
			f.Note(err)
			continue
		}
		reply, err := c.DryRun(ctx, &messages.DryRun{Spec: spec.Bare(), AllowInfeasible: s.allowInfeasible})
		if err != nil {
			f.Note(letWait(err))
			continue
		}
		if hint := reply.GetOutcome().GetHint(); hint != "" {
			a.say("%s: %s", a.name, hint)
		}
		f.Note(a.tried(spec, reply))
	}
	return f.First
}

// trial holds the result of a dry run for programs.
type trial struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Waits      string `json:"reason,omitempty"` // why it would wait; empty: it would start now
	Ahead      int64  `json:"ahead"`
}

// tried prints the result of a dry run.
func (a *app) tried(spec *messages.JobSpec, reply *messages.DryRunReply) error {
	if a.style.Format != "" {
		o := trial{"synapse/v1", "DryRun", spec.Called(), reply.GetWaits(), int64(reply.GetAhead())}
		return cmp.Or(a.next(), show.Object(a.out, a.style.Format, o))
	}
	text := "it would start now"
	if reply.GetWaits() != "" {
		text = "it would wait: " + reply.GetWaits()
	}
	switch n := reply.GetAhead(); {
	case n == 1:
		text += "; 1 job is ahead of it"
	case n > 1:
		text += fmt.Sprintf("; %d jobs are ahead of it", n)
	}
	return a.data("%s could be submitted: %s", spec.Called(), text)
}

// letWait adds the flag's name to a hint of the scheduler about waiting.
func letWait(err error) error {
	if e, is := err.(*client.Error); is && e.Code == messages.Code_CODE_INFEASIBLE {
		e.Hint = strings.Replace(e.Hint, "allow it to wait", "let it wait (--allow-infeasible)", 1)
	}
	return err
}

// sendAll sends several jobs before it waits for any. It first asks the scheduler about each. If a job is still
// refused, it stops; the earlier jobs are submitted, and their IDs are printed.
func (a *app) sendAll(ctx context.Context, c *client.Client, s *submission, specs []*messages.JobSpec) error {
	for _, spec := range specs {
		alone := proto.Clone(spec.Bare()).(*messages.JobSpec)
		alone.After = nil // another job of the same submit may be a dependency that does not exist yet
		_, err := c.DryRun(ctx, &messages.DryRun{Spec: alone, AllowInfeasible: s.allowInfeasible})
		if code := exit.Code(err); code == exit.Misuse || code == exit.Infeasible || code == exit.NotAllowed {
			a.say("%s: none of %d jobs was submitted: job %s was rejected", a.name, len(specs), spec.Called())
			return letWait(err)
		}
	}
	var ids []string
	for i, spec := range specs {
		id, err := a.order(ctx, c, s, spec)
		if err != nil && i > 0 {
			a.say("%s: %d of %d jobs were submitted; the next job, %s, was rejected", a.name, i, len(specs),
				spec.Called())
		}
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if s.wait {
		return a.waitAll(ctx, c, ids, true)
	}
	return nil
}

// describe returns the jobs to submit.
func (a *app) describe(s *submission, files, command []string) ([]*messages.JobSpec, error) {
	switch {
	case s.brings != nil:
		return a.read(s, s.brings.file)
	case len(files) > 0:
		return a.readAll(s, files)
	case s.from == "":
		spec, err := s.spec(command, a.lookup)
		return []*messages.JobSpec{spec}, err
	}
	var spec *messages.JobSpec
	err := a.with(func(ctx context.Context, c *client.Client) error {
		status, err := c.Job(ctx, s.from)
		if err == nil && status.GetWithheld() {
			return &exit.Failure{
				Code: exit.NotAllowed, Text: "job " + status.GetRecord().GetId() + ": its environment and command " +
					"are hidden from you",
				Hint: "only its owner, " + status.GetRecord().Whose() + ", and admins can read them: run " +
					"`synapse-cli whoami`",
			}
		}
		spec = status.GetRecord().Copied()
		if err == nil && spec.GetScript() != nil {
			spec.Script.Text, err = c.Script(ctx, spec.Script)
		}
		return err
	})
	return []*messages.JobSpec{spec}, err
}

// readAll reads a script, or the jobs of several files in order.
func (a *app) readAll(s *submission, files []string) (all []*messages.JobSpec, err error) {
	var sources []map[string]jobfile.Source
	for _, file := range files {
		specs, err := a.read(s, file)
		if err != nil {
			return nil, err
		}
		if s.brings != nil && len(files) > 1 {
			return nil, exit.Hint("run submit once for each script", "%s is a script: several -f require job files", file)
		}
		all, sources = append(all, specs...), append(sources, s.sources...)
	}
	s.sources = sources
	return all, nil
}

// read reads a script or the jobs of a file.
func (a *app) read(s *submission, file string) ([]*messages.JobSpec, error) {
	name, text, err := input(file, a.stdin)
	switch {
	case err != nil:
		return nil, err
	case s.brings == nil && !messages.IsScript(text):
		var specs []*messages.JobSpec
		specs, s.sources, err = jobsWithSources(name, text)
		return specs, err
	case s.brings == nil: // it came through a pipe, and its kind is unknown
		s.brings = &script{file: file}
	}
	if s.script, err = s.brings.made(name, text); err != nil {
		return nil, err
	}
	a.warn(s.brings, name, s.script.Text)
	spec, err := s.spec(nil, a.lookup)
	return []*messages.JobSpec{spec}, err
}

// send submits one job, and waits for it on request.
func (a *app) send(ctx context.Context, c *client.Client, s *submission, spec *messages.JobSpec) error {
	id, err := a.order(ctx, c, s, spec)
	switch {
	case err != nil:
		return err
	case s.attach:
		return a.attach(c, &api.ReadLogs{}, &messages.JobStatus{Record: &messages.JobRecord{Id: id, Spec: spec}})
	case s.wait:
		return a.waitFor(ctx, c, id, true)
	}
	return nil
}

// order submits a job and prints its ID.
func (a *app) order(ctx context.Context, c *client.Client, s *submission, spec *messages.JobSpec) (string, error) {
	if err := c.Precede(ctx, spec, c.Named); err != nil {
		return "", err
	}
	request := &messages.Submit{RequestId: s.requestID, Spec: spec, AllowInfeasible: s.allowInfeasible, Hold: s.hold}
	if request.RequestId == "" {
		request.RequestId = "cli-" + rand.Text()
	}
	if s.seed && !a.style.Quiet && !a.style.Parsable && a.style.Format == "" {
		if err := a.data("Submitting Job %s...", spec.Called()); err != nil {
			return "", err
		}
	}
	reply, err := c.Send(ctx, request)
	if err != nil {
		return "", letWait(err)
	}
	if hint := reply.GetOutcome().GetHint(); hint != "" {
		a.say("%s: %s", a.name, hint)
	}
	if err := a.submitted(s, spec, reply); err != nil && !exit.Closed(err) {
		return "", err
	}
	return reply.GetJob(), nil
}

// submitted prints the ID.
func (a *app) submitted(s *submission, spec *messages.JobSpec, reply *messages.SubmitReply) error {
	id := reply.GetJob()
	switch {
	case a.style.Quiet || a.style.Parsable || a.style.Format == "name":
		return a.data("%s", id)
	case a.style.Format != "":
		o := map[string]string{"apiVersion": "synapse/v1", "kind": "Submitted", "id": id, "name": spec.Called()}
		return cmp.Or(a.next(), show.Object(a.out, a.style.Format, o))
	case s.seed:
		return a.data("Master Response: Job queued successfully (Job ID: %s)", id)
	}
	manner := "submitted"
	if s.hold {
		manner = "submitted and held"
	}
	return a.data("Job %s %s: %s, %s", id, manner, spec.Called(), show.Request(spec))
}

// waitFor waits for one job and returns its exit code as an error. After an interrupt, it says that the job continues.
func (a *app) waitFor(ctx context.Context, c *client.Client, id string, progress bool) error {
	var shown func(*messages.JobStatus)
	if progress {
		shown = a.progress()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	status, err := c.Wait(ctx, id, a.lost, shown)
	if errors.Is(err, context.Canceled) {
		a.say("job %s continues; `%s cancel %s` stops it", id, a.name, id)
	}
	if err != nil {
		return err
	}
	return a.over(status)
}

// progress prints each change of a job's phase once.
func (a *app) progress() func(*messages.JobStatus) {
	last := ""
	return func(j *messages.JobStatus) {
		line := j.GetPhase()
		if why := j.GetReason(); why != "" {
			line += ": " + a.local(why)
		}
		if line != last && !j.GetRecord().GetState().Terminal() {
			a.say("%s %s %s", localtime.Clock(time.Now(), a.style.Zone), j.GetRecord().GetId(), line)
		}
		last = line
	}
}

// over prints how a job ended, and returns its exit code as an error.
func (a *app) over(j *messages.JobStatus) error {
	a.say("%s", a.local(howItEnded(j)))
	return exit.With(show.ExitCode(j.GetRecord()))
}

func howItEnded(j *messages.JobStatus) string {
	r := j.GetRecord()
	line := "job " + r.GetId() + " " + j.GetPhase()
	why := strings.TrimSpace(strings.TrimPrefix(r.GetOutcome(), j.GetPhase()+":"))
	if why == "" || why == j.GetPhase() {
		return line
	}
	return line + ": " + why
}
