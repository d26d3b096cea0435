// Package sbatch reads the options of sbatch and of its scripts, and converts them into a job. It needs no messages, so
// that the small program synapse-submit uses the same code as synapse-cli. Package slurm adds the
// options that need more: arrays, dependencies, containers and steps.
package sbatch

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages/plain"
)

// Version is the release of Slurm whose options and words these programs follow. Clients read it from --version and
// choose their options by it.
const Version = "24.11.0"

// RequestVariable names the variable with the request ID of a submit that synapse-submit sent without getting an
// answer. synapse-cli then repeats the request. The scheduler accepts each ID once, so no second job is submitted.
const RequestVariable = "SYNAPSE_REQUEST_ID"

// Plain holds the values of the common options.
type Plain struct {
	Name, Partition, Account, QOS, Chdir string
	Comment, WCKey                       string
	Never                                bool // no restart
	Output, Errors                       string
	Appends                              bool
	Nodes, Tasks, TasksPerNode           int64
	CPUsPerTask, CPUsPerGPU              int64
	GPUs, GPUsPerNode, GPUsPerTask       int64
	GPUType                              string
	Memory, MemoryPerCPU, MemoryPerGPU   int64
	WholeMemory, Exclusive               bool
	TimeLimitMs                          int64
	Priority                             int32
	Export                               string
	// Given has the names of the options that were set.
	Given map[string]bool
	// Wrap is a command line that replaces a script.
	Wrap string
	// Hold submits the job held. Parsable prints only the number.
	Hold, Parsable bool
}

// New returns the options without any value.
func New() Plain { return Plain{Given: map[string]bool{}, Export: "ALL"} }

// Give notes that an option was set.
func (b *Plain) Give(option string) { b.Given[option] = true }

// Wrapped returns the script that runs the command line of --wrap.
func (b *Plain) Wrapped() []byte {
	return []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + b.Wrap + "\n")
}

// NameFrom names the job after the file of its script, unless an option sets the name.
func (b *Plain) NameFrom(file string) {
	b.Name = orDefault(b.Name, file[strings.LastIndexByte(file, '/')+1:])
}

// Submitted returns the line that sbatch prints for a new job.
func (b *Plain) Submitted(id string) string {
	if b.Parsable {
		return plain.NumericID(id)
	}
	return "Submitted batch job " + plain.NumericID(id)
}

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

// Refuse returns a refusal. The caller adds the name of the option.
func Refuse(hint, format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...), Hint: hint}
}

func orDefault(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// InEnvironment lists environment variables, without the program's prefix, and their options. They override a
// script, and the command line overrides them.
var InEnvironment = [][2]string{
	{"ACCOUNT", "account"}, {"ARRAY_INX", "array"}, {"CONSTRAINT", "constraint"}, {"EXPORT", "export"}, {"GPUS", "gpus"},
	{"GPUS_PER_NODE", "gpus-per-node"}, {"GPUS_PER_TASK", "gpus-per-task"}, {"JOB_NAME", "job-name"},
	{"MEM_PER_CPU", "mem-per-cpu"}, {"MEM_PER_GPU", "mem-per-gpu"}, {"MEM_PER_NODE", "mem"}, {"OPEN_MODE", "open-mode"},
	{"PARTITION", "partition"}, {"QOS", "qos"}, {"SIGNAL", "signal"}, {"TIMELIMIT", "time"},
}

// Directives passes the words of each #SBATCH line before the first command of a script to take, which returns the
// words that are no options.
func Directives(text []byte, take func(words []string) (rest []string, err error)) error {
	if !plain.IsScript(text) {
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
		words, err := Words(rest)
		if err == nil {
			words, err = take(words)
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

// Words splits a line like a shell, without expansions. # starts a comment.
func Words(line string) (words []string, err error) {
	var word strings.Builder
	in, open := false, byte(0)
	for i := range len(line) { // bytes, because the name of a file need not be valid text
		r := line[i]
		switch {
		case open != 0 && r == open:
			open = 0
		case open != 0:
			word.WriteByte(r)
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
			word.WriteByte(r)
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
