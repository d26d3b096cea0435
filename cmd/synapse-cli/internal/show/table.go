// Package show formats output: tables, colours, JSON and YAML. The output depends only on the arguments. The
// package makes no requests and does not use the clock or the terminal.
package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/localtime"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
)

// Style holds the settings of the output.
type Style struct {
	Format    string // "", wide, json, yaml, name, jsonpath=…, custom-columns=…
	NoHeaders bool
	Parsable  bool // fields separated by |, never cut
	Quiet     bool // only IDs
	Colour    bool
	Width     int            // of the terminal; 0: unlimited
	NowMs     int64          // current time, for ages
	Zone      *time.Location // of the times in tables and texts; nil: UTC. Objects and --parsable always have UTC.
}

// Formats lists the values of Style.Format that a user may request.
var Formats = []string{"wide", "json", "yaml", "name"}

// Check refuses an unknown format.
func (s *Style) Check() error {
	if s.isTemplate() {
		if err := s.checkTemplate(); err != nil {
			return err
		}
	} else if s.Format != "" && !slices.Contains(Formats, s.Format) {
		return fmt.Errorf("-o %s: unknown format: use %s, %s", s.Format, strings.Join(Formats, ", "), TemplateFormats)
	}
	return s.CheckOne()
}

// CheckOne refuses contradictory output settings.
func (s *Style) CheckOne() error {
	switch {
	case s.Quiet && s.Format != "":
		return fmt.Errorf("-q and -o cannot be combined: -q is -o name")
	case s.Quiet && s.Parsable:
		return fmt.Errorf("-q and --parsable cannot be combined")
	case s.Parsable && s.Format != "" && s.Format != "wide":
		return fmt.Errorf("--parsable and -o %s cannot be combined", s.Format)
	}
	return nil
}

// local converts the UTC times in a text to the time zone of the user.
func (s *Style) local(text string) string { return localtime.Of(text, s.Zone, s.NowMs) }

// names reports whether only IDs are printed.
func (s *Style) names() bool { return s.Quiet || s.Format == "name" }

// column is one column of a table of T.
type column[T any] struct {
	head  string
	wide  bool // only with -o wide
	right bool // right-aligned, for numbers
	cell  func(T) string
	paint func(T) string // a colour, or ""
	drop  int            // order of removal on a narrow terminal: first 1, then 2; 0: never removed
	rare  bool           // removed if every row has "-", unless programs read the table
	times bool           // cells contain times, which are shown in the time zone of the user
	wrap  bool           // in the last column: a long cell is wrapped instead of cut
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

const gap = "  "

// table prints rows below their headers. Each column is as wide as its widest cell. No row is wider than the
// terminal. First the last column is cut, which contains sentences, and then the widest of the others. The first
// column is never cut, because users copy from it.
func table[T any](w io.Writer, s Style, columns []column[T], rows []T) error {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool {
		return c.wide && s.Format != "wide" && !s.Parsable
	})
	cells := make([][]string, 0, len(rows)+1)
	if !s.NoHeaders {
		cells = append(cells, heads(columns))
	}
	for _, row := range rows {
		line := make([]string, len(columns))
		for i, c := range columns {
			line[i] = oneLine(c.cell(row))
			if c.times && !s.Parsable {
				line[i] = s.local(line[i])
			}
		}
		cells = append(cells, line)
	}
	if s.Parsable {
		return parsable(w, cells)
	}
	cells, columns = without(cells, columns)
	if s.Width > 0 && s.Format != "wide" {
		cells, columns = narrowed(cells, columns, s.Width)
	}
	widths := widthsOf(cells, len(columns))
	if s.Width > 0 {
		fit(widths, columns, s.Width)
	}
	lines := wrapped(cells, widths, len(columns) > 0 && columns[len(columns)-1].wrap)
	var b strings.Builder
	for _, of := range lines {
		line, row := of.cells, of.row-(len(cells)-len(rows)) // -1: the headers
		used := 0
		for i, cell := range line {
			c := columns[i]
			if i > 0 && s.Width > 0 && used+leastCell > s.Width {
				break // the rest does not fit; a pipe has no limit
			}
			cell = cut(cell, widths[i])
			pad := strings.Repeat(" ", widths[i]-width(cell))
			colour := ""
			if row >= 0 && s.Colour && c.paint != nil {
				colour = c.paint(rows[row])
			}
			last := i == len(line)-1
			switch {
			case c.right:
				cell = pad + painted(cell, colour)
			case last:
				cell = painted(cell, colour)
			default:
				cell = painted(cell, colour) + pad
			}
			b.WriteString(cell)
			if !last {
				b.WriteString(gap)
			}
			used += widths[i] + len(gap)
		}
		trimmed := strings.TrimRight(b.String(), " ")
		b.Reset()
		if _, err := io.WriteString(w, trimmed+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// leastLast is the width of the last column below which other columns are removed.
const leastLast = 36

// narrowed removes columns until a row fits with enough of its last column: first the columns in which every row
// has "-", then the least important ones.
func narrowed[T any](cells [][]string, columns []column[T], room int) ([][]string, []column[T]) {
	for {
		widths, last := widthsOf(cells, len(columns)), len(columns)-1
		if last < 0 || inAll(widths[:last])+len(gap)*last+min(widths[last], leastLast) <= room {
			return cells, columns
		}
		at := -1
		for i, c := range columns[:last] {
			if c.drop > 0 && (at < 0 || rank(cells, c, i) < rank(cells, columns[at], at)) {
				at = i
			}
		}
		if at < 0 {
			return cells, columns
		}
		columns = slices.Delete(slices.Clone(columns), at, at+1)
		for i, line := range cells {
			cells[i] = slices.Delete(slices.Clone(line), at, at+1)
		}
	}
}

// without removes the rare columns in which every row has "-".
func without[T any](cells [][]string, columns []column[T]) ([][]string, []column[T]) {
	for i := len(columns) - 1; i >= 0; i-- {
		if columns[i].rare && blank(cells, columns[i], i) {
			columns = slices.Delete(slices.Clone(columns), i, i+1)
			for row, line := range cells {
				cells[row] = slices.Delete(slices.Clone(line), i, i+1)
			}
		}
	}
	return cells, columns
}

// blank reports whether every row of a column has "-".
func blank[T any](cells [][]string, c column[T], at int) bool {
	return !slices.ContainsFunc(cells, func(line []string) bool { return line[at] != "-" && line[at] != c.head })
}

// rank returns the position in the order of removal: the lowest first, and 0 for a column in which every row has
// "-".
func rank[T any](cells [][]string, c column[T], at int) int {
	if blank(cells, c, at) {
		return 0
	}
	return c.drop
}

// printed is one line of a table with the index of its row.
type printed struct {
	cells []string
	row   int
}

// wrapped wraps the last cell of each row into several lines if wrap is set.
func wrapped(cells [][]string, widths []int, wrap bool) (lines []printed) {
	for row, line := range cells {
		last := len(line) - 1
		if !wrap || last < 0 || widths[last] < leastCell || width(line[last]) <= widths[last] {
			lines = append(lines, printed{line, row})
			continue
		}
		for i, part := range explain.Folded(line[last], widths[last]) {
			next := make([]string, len(line))
			if i == 0 {
				copy(next, line)
			}
			next[last] = part
			lines = append(lines, printed{next, row})
		}
	}
	return lines
}

// leastCell is the minimum width of a cell including the gap after it.
const leastCell = 8

// fit makes columns narrower until a row fits.
func fit[T any](widths []int, columns []column[T], room int) {
	last := len(widths) - 1
	for over := inAll(widths) + len(gap)*last - room; over > 0; over-- {
		widest := -1
		for i := 1; i < last; i++ {
			if !columns[i].right && widths[i] > leastCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		switch {
		case widths[last] > 2*leastCell || widest < 0 && widths[last] > leastCell:
			widths[last]--
		case widest >= 0:
			widths[widest]--
		default:
			return
		}
	}
}

func inAll(list []int) int {
	n := 0
	for _, one := range list {
		n += one
	}
	return n
}

func heads[T any](columns []column[T]) []string {
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.head
	}
	return line
}

func widthsOf(cells [][]string, columns int) []int {
	widths := make([]int, columns)
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], width(cell))
		}
	}
	return widths
}

// parsable prints fields separated by |. A | inside a field is escaped.
func parsable(w io.Writer, cells [][]string) error {
	escape := strings.NewReplacer(`\`, `\\`, `|`, `\|`)
	for _, line := range cells {
		for i := range line {
			line[i] = escape.Replace(line[i])
		}
		if _, err := io.WriteString(w, strings.Join(line, "|")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func painted(s, colour string) string {
	if colour == "" || s == "" {
		return s
	}
	return colour + s + plain
}

func width(s string) int { return utf8.RuneCountInString(s) }

// cut shortens a text to the available width.
func cut(s string, room int) string {
	if room < 1 || width(s) <= room {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:room-1]), " ") + "…"
}

// oneLine escapes line breaks and control characters in the text of other users.
func oneLine(s string) string { return messages.OneLine(strings.TrimSpace(s)) }

// Lines escapes control characters in the text of other users, but keeps line breaks.
func Lines(s string) string { return messages.Lines(s) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
