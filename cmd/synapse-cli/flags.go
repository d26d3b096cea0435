package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file reports wrong flags by the flag's name and in plain English. The errors of the flag library and of the
// API are translated.

// span is a flag for a duration in the notation of a job file: 90s, 5m, 24h.
type span struct{ ms *int64 }

func (s span) Set(text string) error {
	ms, err := jobfile.ParseDuration(text)
	if err == nil {
		*s.ms = ms
	}
	return err
}

func (s span) String() string {
	if s.ms == nil || *s.ms == 0 {
		return ""
	}
	return jobfile.FormatDuration(*s.ms)
}

func (span) Type() string { return "time" }

// timeOfDay is a flag for a time in the notation of a job file: 08:00, 2026-11-24T08:00, now+2h.
type timeOfDay struct{ unixMs *int64 }

func (m timeOfDay) Set(text string) error {
	at, err := jobfile.ParseMoment(text)
	if err == nil {
		*m.unixMs = at
	}
	return err
}

func (m timeOfDay) String() string {
	if m.unixMs == nil || *m.unixMs == 0 {
		return ""
	}
	return jobfile.FormatMoment(*m.unixMs)
}

func (timeOfDay) Type() string { return "time" }

// timeOrNone is a flag for a time that can also be removed.
type timeOrNone struct{ timeOfDay }

func (m timeOrNone) Set(text string) error {
	if text == "none" {
		*m.unixMs = 0
		return nil
	}
	return m.timeOfDay.Set(text)
}

// refusedFlag returns the error for a wrong value of a flag.
func refusedFlag(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return invalidFlag(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap())
}

func invalidFlag(f *pflag.Flag, value string, err error) error {
	var problem *jobfile.Problem
	switch kind := f.Value.Type(); {
	case errors.As(err, &problem):
		return flagProblem(f.Name, problem)
	case strings.HasPrefix(kind, "int") && errors.Is(err, strconv.ErrRange):
		return exit.Usage("--%s %q: number is too large", f.Name, value)
	case strings.HasPrefix(kind, "int"):
		return exit.Hint("write digits only", "--%s %q: must be a whole number", f.Name, value)
	case kind == "bool":
		return exit.Hint("write the flag without a value, or with =true or =false", "--%s %q: must be true or false",
			f.Name, value)
	}
	return exit.Usage("--%s %q: invalid value", f.Name, value)
}

// refusedEmpty refuses a flag with an empty value, which usually comes from an unset shell variable. If it were
// ignored, the user would submit another job than intended.
func refusedEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		kind, value := f.Value.Type(), f.Value.String()
		if f.Name != "reason" && (kind == "string" && value == "" || kind == "stringSlice" && value == "[]") {
			err = exit.Hint("give it a value, or omit it", "--%s is empty", f.Name)
		}
	})
	return err
}

// flagFields maps the fields of a job to the flags that set them.
var flagFields = []struct{ field, flag string }{
	{"gang.replicas_", "replicas"}, {"gang.split", "split"},
	{"nodes", "nodelist"}, {"exclude", "exclude"}, {"gpu_type", "gpu-type"}, {"image", "image"}, {"name", "name"},
	{"queue", "queue"},
	{"priority", "priority"}, {"topology.required", "required"}, {"topology.preferred", "preferred"}, {"env", "env"},
	{"labels", "label"},
	{"node_selector", "node-selector"}, {"mounts", "mount"}, {"workdir", "workdir"}, {"user", "user"},
	{"network", "network"}, {"launcher", "launcher"}, {"time_limit_ms", "time-limit"},
	{"after", "after"}, {"array", "array"},
	{"prepare_timeout_ms", "prepare-timeout"},
	{"lost_grace_ms", "lost-grace"}, {"stop_when_lost_ms", "stop-when-lost"},
	{"restart.limit", "restarts"}, {"restart.backoff_ms", "backoff"},
	{"restart.in_place", "in-place"}, {"restart.spares", "spares"}, {"topology.patience_ms", "patience"},
	{"shm_bytes", "shm"}, {"disk_bytes", "disk"}, {"stop.grace_ms", "grace"},
	{"warn", "warn"}, {"checkpoint", "checkpoint"}, {"hang", "hang"}, {"not_preemptible", "preemptible"},
	{"stop.signal", "stop-signal"}, {"each.milli_gpu", "gpu"}, {"each.milli_cpu", "cpu"}, {"each.memory_bytes", "mem"},
	{"gang.total.milli_gpu", "gpu"}, {"gang.total.milli_cpu", "cpu"}, {"gang.total.memory_bytes", "mem"},
}

// inFlags translates an error about a job file into the words of the command line.
var inFlags = strings.NewReplacer("topology.required: node", "--required node", "topology.required", "--required",
	"topology.preferred", "--preferred", "network: host", "--network host", "gang.replicas", "--replicas",
	"restart.inPlace", "--in-place", "restart.limit", "--restarts",
	"gang.total", "a total", "gang.split", "--split")

// refusedSpec returns the error for a wrong job, with the name of the flag.
func refusedSpec(err error) error {
	var f *messages.FieldError
	if !errors.As(err, &f) {
		return exit.Usage("job is not valid: %s", err)
	}
	text, hint := inFlags.Replace(jobfile.InUnits(f.Field, f.Text)), inFlags.Replace(jobfile.InUnits(f.Field, f.Hint))
	switch {
	case f.Field == "command":
		return exit.Hint("write the command after --, as in -- ./train.sh", "command %s", text)
	case f.Field == "each", f.Field == "gang.total":
		return exit.Hint("give --cpu, --mem or --gpu", "job requests no resources")
	}
	for _, known := range flagFields {
		if strings.HasPrefix(f.Field, known.field) {
			return exit.Hint(hint, "--%s: %s", known.flag, text)
		}
	}
	return exit.Hint(hint, "job is not valid: %s", strings.TrimSpace(text))
}

// named checks the number of arguments: at least one, and at most the number most (0: any number).
func named(what, example string, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return exit.Hint("run `"+c.CommandPath()+" "+example+"`", "%s is missing", what)
		case most > 0 && len(args) > most:
			return exit.Hint("run the command once for each", "%s accepts one %s, got %d", c.CommandPath(), what,
				len(args))
		}
		return nil
	}
}

// rankList is a flag for ranks: 0-3,7.
type rankList struct{ to *[]int32 }

func (l rankList) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		from, err := strconv.ParseInt(first, 10, 32)
		to, failed := strconv.ParseInt(last, 10, 32)
		if err != nil || failed != nil || from < 0 || to < from || to >= messages.MaxGangTasks {
			return &jobfile.Problem{Text: strconv.Quote(part) + " is not a rank or a range of ranks",
				Hint: "write 3, or 0-3, or 0-3,7"}
		}
		for rank := from; rank <= to; rank++ {
			if !slices.Contains(*l.to, int32(rank)) {
				*l.to = append(*l.to, int32(rank))
			}
		}
	}
	return nil
}

func (rankList) String() string { return "" }
func (rankList) Type() string   { return "ranks" }

// restarts is a flag for a number of restarts, or the word never.
type restarts struct {
	limit int32
	never bool
}

func (r *restarts) String() string { return "" }
func (r *restarts) Type() string   { return "number" }

func (r *restarts) Set(text string) error {
	if text == jobfile.Never {
		r.limit, r.never = 0, true
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return &jobfile.Problem{Text: strconv.Quote(text) + " is not a number of restarts", Hint: "write a number, or never"}
	}
	r.limit, r.never = int32(n), false
	return nil
}
