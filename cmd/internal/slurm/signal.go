package slurm

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file implements the signals of scancel: their names, and the command that sends one in a task.

// signal.sh sends a signal in a task.
//
//go:embed signal.sh
var signalText string

// signals lists the names that scancel accepts.
var signals = strings.Fields("HUP INT QUIT ABRT KILL ALRM TERM USR1 USR2 URG CONT STOP TSTP TTIN TTOU XCPU")

// Signal is a request to send a signal to processes of a job.
type Signal struct {
	Name  string // without SIG, or a number
	Batch bool   // only to the script
	Full  bool   // to the script, its children and all steps
	Step  string // only to the step with this number
}

// ParseSignal returns the name of a signal: USR1, SIGUSR1 or 10.
func ParseSignal(text string) (string, error) {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= 64 {
		if n == 9 {
			return "KILL", nil
		}
		return strconv.Itoa(n), nil
	}
	if !slices.Contains(signals, name) {
		return "", &Refusal{Option: "--signal", Text: "unknown signal " + text,
			Hint: "use a number, or one of " + strings.Join(signals, " ")}
	}
	return name, nil
}

// Cancels reports whether the request cancels the job, as scancel does by default and with KILL.
func (s Signal) Cancels() bool {
	return s.Step == "" && !s.Batch && (s.Name == "" || s.Name == "KILL")
}

// StepOf splits the number of a step from a job: 7.0, or 7.batch for the script.
func StepOf(word string) (job string, s Signal) {
	at := strings.LastIndexByte(word, '.')
	if at < 0 {
		return word, Signal{}
	}
	switch step := word[at+1:]; {
	case step == "batch":
		return word[:at], Signal{Batch: true}
	case step != "" && strings.Trim(step, "0123456789") == "":
		return word[:at], Signal{Step: step}
	}
	return word, Signal{}
}

// In returns the command for a task of a job. ok is false if the task has no such processes: only the first task runs
// the script.
func (s Signal) In(spec *messages.JobSpec, rank int) (command []string, ok bool) {
	kind := "steps"
	program := ""
	if spec.GetLauncher() == messages.Launch_LAUNCH_SLURM {
		program = spec.GetScript().GetName()
	}
	switch script := program == forSbatch.name; {
	case !script && program != forSrun.name && program != forSalloc.name:
		kind = "task"
	case s.Batch && (!script || rank > 0):
		return nil, false
	case s.Batch:
		kind = "batch"
	case s.Full && script:
		kind = "full"
	}
	name := s.Name
	if name == "" {
		name = "KILL"
	}
	return []string{"/bin/sh", "-c", signalText, "scancel", name, kind, s.Step}, true
}

// Marks is the environment of the command that signals. The command skips every process with this variable: itself.
const Marks = "SLURM_SCANCEL=1"
