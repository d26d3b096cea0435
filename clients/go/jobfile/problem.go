package jobfile

import (
	"fmt"
	"strings"
)

// This file owns how a refusal reads.

// maxProblems bounds what is reported at once: behind the tenth mistake, most
// are the same one.
const maxProblems = 10

// Problem is one thing that is wrong, where, and what to do about it.
type Problem struct {
	Line, Column int    // 0: of the whole file
	Path         string // spec.gang.replicas; empty where a key would not help
	Text         string
	Hint         string
}

// Error is the whole in one line, without the name of the file.
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

// Problems is everything that is wrong with a file, in its order.
type Problems []*Problem

// Error is a line for each.
func (p Problems) Error() string { return strings.Join(p.Lines(""), "\n") }

// Lines is a line for each, each beginning with the file's name.
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

// say is a problem without a place.
func say(hint, format string, args ...any) *Problem {
	return &Problem{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// quote shows what was written, cut where it is long.
func quote(s string) string {
	if r := []rune(s); len(r) > 40 {
		return fmt.Sprintf("%q…", string(r[:40]))
	}
	return fmt.Sprintf("%q", s)
}
