package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file writes man pages. Cobra's generator converts Markdown, and the start of that library alone takes a tenth of
// the time of a short command.

// WriteMan writes a man page for each visible command of a program to a folder. source is the program and its version.
func WriteMan(c *cobra.Command, dir, source string) error {
	c.InitDefaultHelpCmd()
	for _, below := range visible(c) {
		if err := WriteMan(below, dir, source); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(man(c, source)), 0o644)
}

// visible returns the commands below a command that its help lists.
func visible(c *cobra.Command) (all []*cobra.Command) {
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, below)
		}
	}
	return all
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// man returns the page of a command. It has a fixed date, so that the same version creates the same page.
func man(c *cobra.Command, source string) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".nh\n.TH \"%s\" \"1\" \"Jan 1970\" \"%s\" \"Synapse\"\n", strings.ToUpper(roff(pageName(c))),
		roff(source))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(cmp.Or(c.Long, Sentence(c.Short))))
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLE\n%s", fixed(strings.Split(c.Example, "\n")))
	}
	var also []string
	if c.HasParent() {
		also = append(also, `\fB`+roff(pageName(c.Parent()))+`\fR(1)`)
	}
	for _, below := range visible(c) {
		also = append(also, `\fB`+roff(pageName(below))+`\fR(1)`)
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

// options writes a section with the visible flags of a set.
func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name := `\fB--` + roff(f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB-` + roff(f.Shorthand) + `\fR, ` + name
		}
		value := "=" + f.DefValue
		if f.Value.Type() == "string" {
			value = fmt.Sprintf("=%q", f.DefValue)
		}
		if f.NoOptDefVal != "" {
			value = "[" + value + "]"
		}
		fmt.Fprintf(b, ".TP\n%s%s\n%s\n", name, roff(value), bold(strings.Join(strings.Fields(f.Usage), " ")))
	})
}

// paragraphs returns help as roff. The lines of a table, which are indented, stay as they are.
func paragraphs(long string) string {
	var b strings.Builder
	var table []string
	end := func() {
		if len(table) > 0 {
			b.WriteString(fixed(table))
			table = nil
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(long), "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			table = append(table, strings.TrimPrefix(line, "  "))
		case line == "":
			end()
			b.WriteString(".PP\n")
		default:
			end()
			b.WriteString(bold(line) + "\n")
		}
	}
	end()
	return b.String()
}

// fixed returns lines that are shown as they are.
func fixed(lines []string) string {
	text := ".PP\n.EX\n"
	for _, line := range lines {
		text += roff(line) + "\n"
	}
	return text + ".EE\n"
}

// bold returns a line in which code is bold.
func bold(line string) string {
	parts := strings.Split(line, "`")
	for i := range parts {
		if parts[i] = escaped.Replace(parts[i]); i%2 == 1 {
			parts[i] = `\fB` + parts[i] + `\fR`
		}
	}
	return guarded(strings.Join(parts, ""))
}

var escaped = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// roff returns a line of text in which no character has a meaning for the formatter.
func roff(line string) string { return guarded(escaped.Replace(line)) }

// guarded keeps a text line from being read as a request.
func guarded(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
