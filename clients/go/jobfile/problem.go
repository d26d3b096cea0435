package jobfile

import (
	"fmt"
	"strings"
)

// This file formats the errors of a job file.

// maxProblems limits the number of reported problems. After ten problems, most further ones have the same
// cause.
const maxProblems = 10

// Problem describes one error in a file, with its position and a hint.
type Problem struct {
	Line, Column int    // 0: the whole file
	Path         string // spec.gang.replicas; empty if a key would not help
	Text         string
	Hint         string
}

// Error returns the problem in one line, without the name of the file.
func (p *Problem) Error() string {
	var s strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&s, "%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		s.WriteString(p.Path + ": ")
	}
	s.WriteString(p.Text)
	if p.Hint != "" {
		s.WriteString("; " + p.Hint)
	}
	return s.String()
}

// Problems holds all errors of a file, in the order of the file.
type Problems []*Problem

// Error returns one line per problem.
func (p Problems) Error() string { return strings.Join(p.Lines(""), "\n") }

// Lines returns one line per problem. Each line starts with the name of the file.
func (p Problems) Lines(file string) []string {
	if file != "" {
		file += ":"
	}
	var lines []string
	for _, problem := range p {
		sep := ""
		if file != "" && problem.Line == 0 {
			sep = " "
		}
		lines = append(lines, file+sep+problem.Error())
	}
	return lines
}

// say returns a problem without a position.
func say(hint, format string, args ...any) *Problem {
	return &Problem{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// quote quotes a text, and shortens it if it is long.
func quote(s string) string {
	if r := []rune(s); len(r) > 40 {
		return fmt.Sprintf("%q…", string(r[:40]))
	}
	return fmt.Sprintf("%q", s)
}
