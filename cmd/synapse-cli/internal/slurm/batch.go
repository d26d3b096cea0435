// Package slurm translates between Slurm and Synapse: Slurm's options into jobs, and jobs and nodes into Slurm's
// states, reasons and columns. An option is never ignored silently: an unsupported option is refused by its name.
// The package makes no requests and runs nothing.
package slurm

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/messages"
)

// This file reads the options of a batch script and a command line, before they become a job.

// Refusal is the error for an unsupported option or value.
type Refusal struct {
	Option, Text, Hint string
	Scope              bool // the error is about elements of an array
}

func (r *Refusal) Error() string {
	text := r.Option + ": " + r.Text
	if r.Hint != "" {
		text += " (" + r.Hint + ")"
	}
	return text
}

func refuse(hint, format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Batch holds the requested options.
type Batch struct {
	name, partition, account, qos, chdir string
	comment, wckey                       string
	never                                bool // no restart
	output, errors                       string
	appends                              bool
	nodes, tasks, tasksPerNode           int64
	cpusPerTask, cpusPerGPU              int64
	gpus, gpusPerNode, gpusPerTask       int64
	gpuType                              string
	memory, memoryPerCPU, memoryPerGPU   int64
	wholeMemory, exclusive               bool
	timeLimitMs, beginUnixMs             int64
	array                                *messages.ArraySpec
	after                                []*messages.After
	selector                             []*messages.Label
	nodelist, exclude                    []string
	priority                             int32
	warn                                 *messages.WarnSpec
	topology                             *messages.TopologySpec
	export                               string
	step                                 step
	container                            container
	program                              *program
	given                                map[string]bool
	warnings                             []string

	// Wrap is a command line that replaces a script.
	Wrap string
	// Hold submits the job held. Parsable prints only the number. Wait exits with the job's code.
	Hold, Parsable, Wait bool
	// Singleton starts the job after all other jobs with the same name and owner.
	Singleton bool
	// TestOnly submits nothing.
	TestOnly bool
}

// program is a Slurm program that requests resources: its options, and the prefix of its environment variables.
type program struct {
	name, prefix string
	options      func() []option
}

var forSbatch = &program{"sbatch", "SBATCH_", options}

// Warnings returns a line for each accepted option without an effect.
func (b *Batch) Warnings() []string { return b.warnings }

// setter stores the value of an option.
type setter func(b *Batch, value string) error

// option is one of Slurm's options.
type option struct {
	long, short string
	bare        string // its default value; empty: a value is required
	set         setter
}

// named reports whether a name of a table, which may have a letter and a mark, is the name of the option.
func (o option) named(name string) bool {
	name, _, _ = strings.Cut(strings.TrimSuffix(name, "?"), ",")
	return strings.TrimSuffix(name, "?") == o.long
}

// value implements a flag with an option.
type value struct {
	b *Batch
	o option
}

func (v value) String() string { return "" }
func (v value) Type() string   { return "value" }

func (v value) Set(text string) error {
	err := v.o.set(v.b, text)
	if r, is := err.(*Refusal); is {
		r.Option = "--" + v.o.long
	}
	v.b.given[v.o.long] = true
	return err
}

func (b *Batch) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.Usage = func() {}
	for _, o := range b.program.options() {
		flag := f.VarPF(value{b, o}, o.long, o.short, "")
		flag.NoOptDefVal = o.bare
	}
	return f
}

// take parses arguments, and returns those after the options.
func (b *Batch) take(words []string) ([]string, error) {
	f := b.flags()
	words, err := Whole(f, true, words)
	if err != nil {
		return nil, err
	}
	if err := f.Parse(attached(f, words)); err != nil {
		return nil, b.program.plain(err)
	}
	return f.Args(), nil
}

// maybeAttached lists letters with an optional value, which must directly follow the letter: -K0.
const maybeAttached = "KI"

// attached rewrites such values for the flag library, up to the first argument that is not an option.
func attached(f *pflag.FlagSet, words []string) []string {
	words = slices.Clone(words)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' || word == "--" {
			break
		}
		long, _, has := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		flag := f.Lookup(long)
		if word[1] != '-' {
			flag, has = f.ShorthandLookup(word[1:2]), len(word) > 2
		}
		switch {
		case flag == nil:
		case flag.NoOptDefVal == "" && !has:
			i++ // the next argument is its value
		case word[1] != '-' && has && strings.Contains(maybeAttached, word[1:2]):
			words[i] = "--" + flag.Name + "=" + word[2:]
		}
	}
	return words
}

// plain translates an error of the flag library.
func (p *program) plain(err error) error {
	if invalid, is := err.(*pflag.InvalidValueError); is {
		if r, is := invalid.Unwrap().(*Refusal); is {
			return r
		}
	}
	text := err.Error()
	if name, is := strings.CutPrefix(text, "unknown flag: "); is {
		return &Refusal{Option: name, Text: "is not a supported option of " + p.name}
	}
	if rest, is := strings.CutPrefix(text, "unknown shorthand flag: "); is {
		return &Refusal{Option: rest[strings.LastIndex(rest, " ")+1:], Text: "contains an unsupported option letter"}
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "flag needs an argument: "), " ")
	return &Refusal{Option: name, Text: strings.TrimSpace("needs a value " + rest)}
}

// inEnvironment lists environment variables, without the program's prefix, and their options. They override a
// script, and the command line overrides them.
var inEnvironment = [][2]string{
	{"ACCOUNT", "account"}, {"ARRAY_INX", "array"}, {"CONSTRAINT", "constraint"}, {"EXPORT", "export"}, {"GPUS", "gpus"},
	{"GPUS_PER_NODE", "gpus-per-node"}, {"GPUS_PER_TASK", "gpus-per-task"}, {"JOB_NAME", "job-name"},
	{"MEM_PER_CPU", "mem-per-cpu"}, {"MEM_PER_GPU", "mem-per-gpu"}, {"MEM_PER_NODE", "mem"}, {"OPEN_MODE", "open-mode"},
	{"PARTITION", "partition"}, {"QOS", "qos"}, {"SIGNAL", "signal"}, {"TIMELIMIT", "time"},
}

// variables reads the environment variables of the program. It ignores variables whose options the program does not
// have.
func (b *Batch) variables(lookup func(string) (string, bool)) error {
	known := map[string]bool{}
	for _, o := range b.program.options() {
		known[o.long] = true
	}
	var asked []string
	for _, v := range inEnvironment {
		if value, ok := lookup(b.program.prefix + v[0]); ok && value != "" && known[v[1]] {
			asked = append(asked, "--"+v[1]+"="+value)
		}
	}
	_, err := b.take(asked)
	return err
}

// Parse parses a command line of sbatch. read returns the named script; it is not called with --wrap. Parse returns
// the options, the script's text, and its arguments.
func Parse(words []string, lookup func(string) (string, bool), read func(string) ([]byte, error)) (
	b *Batch, text []byte, args []string, err error) {
	line := newBatch(forSbatch)
	rest, err := line.take(words)
	if err != nil {
		return nil, nil, nil, err
	}
	b = newBatch(forSbatch)
	switch {
	case line.Wrap != "" && len(rest) > 0:
		return nil, nil, nil, &Refusal{Option: "--wrap", Text: "cannot be combined with the script " + rest[0]}
	case line.Wrap != "":
		text = []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + line.Wrap + "\n")
	default:
		name := "-"
		if len(rest) > 0 {
			name, args = rest[0], rest[1:]
		}
		if text, err = read(name); err != nil {
			return nil, nil, nil, err
		}
		if err := b.script(text); err != nil {
			return nil, nil, nil, err
		}
		if name != "-" {
			b.name = orDefault(b.name, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	if err := b.variables(lookup); err != nil {
		return nil, nil, nil, err
	}
	if _, err := b.take(words); err != nil {
		return nil, nil, nil, err
	}
	if err := b.stepContainers(text); err != nil {
		return nil, nil, nil, err
	}
	return b, text, args, found(text)
}

func newBatch(p *program) *Batch { return &Batch{program: p, given: map[string]bool{}, export: "ALL"} }

func orDefault(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// script reads the #SBATCH lines of a script before its first command.
func (b *Batch) script(text []byte) error {
	if !messages.IsScript(text) {
		return &Refusal{Option: "the script", Text: "must begin with #!",
			Hint: "name the interpreter in the first line, such as #!/bin/bash"}
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			break
		}
		rest, is := strings.CutPrefix(line, "#SBATCH")
		if !is || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		words, err := wordsOf(rest)
		if err == nil {
			words, err = b.take(words)
		}
		if err == nil && len(words) > 0 {
			err = &Refusal{Option: words[0], Text: "is not an option"}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// missing matches calls of Slurm programs that are not available in a job here.
var missing = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*(sattach|salloc|sstat)\b`)
})

// found refuses a script that calls a missing program, because it would fail in the middle.
func found(text []byte) error {
	at := missing().FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	return &Refusal{Option: fmt.Sprintf("line %d: %s", 1+bytes.Count(text[:at[2]], []byte("\n")), text[at[2]:at[3]]),
		Text: "is not available", Hint: "use srun and scontrol show hostnames inside a job: see " +
			"docs/reference/slurm.md"}
}

// wordsOf splits a line like a shell, without expansions. # starts a comment.
func wordsOf(line string) (words []string, err error) {
	var word strings.Builder
	in, open := false, rune(0)
	for _, r := range line {
		switch {
		case open != 0 && r == open:
			open = 0
		case open != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			in, open = true, r
		case r == ' ' || r == '\t':
			if in {
				words, in = append(words, word.String()), false
				word.Reset()
			}
		case r == '#' && !in:
			return words, nil
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if open != 0 {
		return nil, &Refusal{Option: strings.TrimSpace(line), Text: "has an unclosed quote"}
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
