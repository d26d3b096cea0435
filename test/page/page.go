// Package page parses the pages of this repository for tests. It finds the fenced blocks, and how a reader uses each of
// them. It defines how a block states its use, and runs none.
package page

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Block is one fenced block of a page.
type Block struct {
	Page    string // from the repository's root
	Line    int    // line of its fence
	Heading string // heading above it
	Info    string // the word after its fence
	Note    string // the comment directly above it
	Text    string // without the page's indentation
}

// Use is how a reader uses a block.
type Use int

const (
	// Typed is typed into a shell: "sh", or "console" with the output below each "$ ".
	Typed Use = iota + 1
	// File is written into a file, by a note "file: PATH".
	File
	// Elsewhere is run by another test, by a note "run by PACKAGE.TEST".
	Elsewhere
	// Shown is only read, and contains no command.
	Shown
	// NotRun cannot be run by a test, by a note "not run: REASON".
	NotRun
)

// shown lists the words of blocks that are only read.
var shown = []string{"text", "json", "promql", "mermaid"}

// Console is the word of blocks with commands and output.
const Console = "console"

// leastReason is the minimum length of a reason.
const leastReason = 20

// Use returns how a reader uses the block, and the path, the test or the reason in its note.
func (b Block) Use() (Use, string, error) {
	for prefix, use := range map[string]Use{"file: ": File, "run by ": Elsewhere, "not run: ": NotRun} {
		if word, is := strings.CutPrefix(b.Note, prefix); is {
			if use == NotRun && len(word) < leastReason {
				return 0, "", fmt.Errorf("%s: %q is too short for a reason", b, word)
			}
			return use, word, nil
		}
	}
	switch {
	case b.Note != "":
		return 0, "", fmt.Errorf("%s: the comment above has neither \"file:\", \"run by\" nor \"not run:\": %q", b, b.Note)
	case b.Info == "sh" || b.Info == Console:
		return Typed, "", nil
	case !slices.Contains(shown, b.Info):
		return 0, "", fmt.Errorf("%s: %q does not say what a reader does with it: mark it sh, console or text, "+
			"or write above it which test runs it, or why none can", b, "```"+b.Info)
	}
	for line := range strings.Lines(b.Text) {
		for _, prefix := range []string{"$ ", "make ", "synapse-cli ", "synapse-scheduler ", "synapse-node ", "sudo "} {
			if strings.HasPrefix(line, prefix) {
				return 0, "", fmt.Errorf("%s: a block that is only shown has a command: %s", b, line)
			}
		}
	}
	return Shown, "", nil
}

// String returns the position of the block.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Read finds the blocks of a page, which is named from the repository's root.
func Read(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return Blocks(page, string(text)), nil
}

// Blocks finds the blocks of a page's text. A block without a closing fence extends to the end of the page.
func Blocks(page, text string) (all []Block) {
	var above, heading string
	var b *Block
	indent, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		bare := strings.TrimLeft(line, " ")
		fence, fenced := strings.CutPrefix(bare, "```")
		switch {
		case b != nil && bare == "```":
			b = nil
		case b != nil:
			b.Text += strings.TrimPrefix(line, indent) + "\n"
		case fenced:
			indent = line[:len(line)-len(bare)]
			all = append(all, Block{Page: page, Line: n, Heading: heading, Info: fence, Note: noteOf(above)})
			b = &all[len(all)-1]
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		}
		above = bare
	}
	return all
}

// noteOf returns the text of a comment that is a complete line, or an empty string.
func noteOf(line string) string {
	note, begins := strings.CutPrefix(line, "<!-- ")
	note, ends := strings.CutSuffix(note, " -->")
	if !begins || !ends {
		return ""
	}
	return note
}

// Step is a command of a terminal, after "$ ", and its output.
type Step struct{ Command, Answer string }

// Steps returns the steps of a console block, or of a program's output.
func Steps(text string) (all []Step) {
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, Step{Command: strings.TrimSpace(command)})
		} else if len(all) > 0 {
			all[len(all)-1].Answer += line
		}
	}
	return all
}

// Commands returns the commands at the head of an example: the indented lines of its comment.
func Commands(text string) (all []string) {
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(line, "#   "); is {
			all = append(all, strings.TrimSpace(command))
		}
	}
	return all
}

// masks lists text that differs between runs, and its replacement.
var masks = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\bj[a-z2-7]{12}\b`), "JOB"},
	{regexp.MustCompile(`\(j[a-z2-7]{5}\b`), "(JOB"}, // a short ID
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST:PORT"},
	{regexp.MustCompile(`secret=\S+`), "secret=SECRET"},
	{regexp.MustCompile(`\b\d\d:\d\dZ`), "HH:MMZ"},
	{regexp.MustCompile(`\b\d+[smhd]\b`), "AGE"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` (-|AGE) AGE\b`), " RAN AGE"}, // a very short job may have no run time
}

// Mask hides text in a program's output that differs between runs.
func Mask(text string) string {
	for _, m := range masks {
		text = m.of.ReplaceAllString(text, m.by)
	}
	return strings.TrimSpace(text)
}
