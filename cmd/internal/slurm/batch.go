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

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file reads the options of a batch script and a command line, before they become a job.

// Refusal is the error for an unsupported option or value.
type Refusal = sbatch.Refusal

func refuse(hint, format string, args ...any) error { return sbatch.Refuse(hint, format, args...) }

// Batch holds the requested options.
type Batch struct {
	sbatch.Plain
	beginUnixMs       int64
	deadlineUnixMs    int64
	array             *messages.ArraySpec
	after             []*messages.After
	selector          []*messages.Label
	nodelist, exclude []string
	warn              *messages.WarnSpec
	topology          *messages.TopologySpec
	step              step
	container         container
	program           *program
	warnings          []string

	// Wait exits with the job's code.
	Wait bool
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
	v.b.Given[v.o.long] = true
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

// variables reads the environment variables of the program. It ignores variables whose options the program does not
// have.
func (b *Batch) variables(lookup func(string) (string, bool)) error {
	known := map[string]bool{}
	for _, o := range b.program.options() {
		known[o.long] = true
	}
	var asked []string
	for _, v := range sbatch.InEnvironment {
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
		text = line.Wrapped()
	default:
		name := "-"
		if len(rest) > 0 {
			name, args = rest[0], rest[1:]
		}
		if text, err = read(name); err != nil {
			return nil, nil, nil, err
		}
		if err := sbatch.Directives(text, b.take); err != nil {
			return nil, nil, nil, err
		}
		if name != "-" {
			b.NameFrom(name)
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

func newBatch(p *program) *Batch { return &Batch{program: p, Plain: sbatch.New()} }

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
