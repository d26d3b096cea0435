package explain

import (
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages"
)

// This file formats the rows for a terminal, or as one line.

const (
	// labelColumns is the width of the labels and the gap after them.
	labelColumns = len(changeRow) + 2
	// lastLeast is the smallest width of the last cell of a line. If less remains, the cells of the line are
	// joined.
	lastLeast = 18
	gap       = "  "
)

// Text returns the text for a terminal of this width. Width 0 means that no line is broken.
func (p Sheet) Text(width int) string {
	var b strings.Builder
	write := func(first, indent, text string, room int) {
		for i, line := range Folded(text, room) {
			if i > 0 {
				first = strings.Repeat(" ", utf8.RuneCountInString(indent))
			}
			b.WriteString(strings.TrimRight(first+line, " ") + "\n")
		}
	}
	write("", "", clean(p.Title), width)
	if len(p.Rows) > 0 {
		b.WriteByte('\n')
	}
	for _, row := range p.Rows {
		label := row.Label + strings.Repeat(" ", labelColumns-len(row.Label))
		for _, line := range columns(row.Lines, width-labelColumns, width > 0) {
			room := width
			if width > 0 {
				room = max(width-labelColumns-utf8.RuneCountInString(line.before), lastLeast)
			}
			write(label+line.before, label+line.before, line.last, room)
			label = strings.Repeat(" ", labelColumns)
		}
	}
	return b.String()
}

// With returns the explanation with each of its texts converted.
func (p Sheet) With(convert func(string) string) Sheet {
	converted := Sheet{Title: convert(p.Title)}
	for _, row := range p.Rows {
		lines := make([][]string, len(row.Lines))
		for i, line := range row.Lines {
			for _, cell := range line {
				lines[i] = append(lines[i], convert(cell))
			}
		}
		converted.Rows = append(converted.Rows, Row{row.Label, lines})
	}
	return converted
}

// Line returns the text as one line.
func (p Sheet) Line() string {
	parts := []string{clean(p.Title)}
	for _, row := range p.Rows {
		var lines []string
		for _, line := range row.Lines {
			lines = append(lines, clean(strings.Join(line, " ")))
		}
		parts = append(parts, row.Label+": "+strings.Join(lines, "; "))
	}
	return strings.Join(parts, " · ")
}

// laid is a line of a row: the cells in columns, and the last cell, which may be broken.
type laid struct{ before, last string }

// columns arranges the lines of a row in columns, if the last cell has enough width.
func columns(lines [][]string, room int, narrow bool) []laid {
	var widths []int
	for _, line := range lines {
		for i, cell := range line[:len(line)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(cell)))
		}
	}
	used := 0
	for _, w := range widths {
		used += w + len(gap)
	}
	joined := narrow && used+lastLeast > room
	all := make([]laid, 0, len(lines))
	for _, line := range lines {
		at := len(line) - 1
		if joined || at == 0 {
			all = append(all, laid{last: clean(strings.Join(line, " "))})
			continue
		}
		var b strings.Builder
		for i, cell := range line[:at] {
			cell = clean(cell)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 && cell != "" && cell[0] >= '0' && cell[0] <= '9' && at > 1 {
				cell, pad = pad+cell, "" // numbers are right-aligned
			}
			b.WriteString(cell + pad + gap)
		}
		all = append(all, laid{b.String(), clean(line[at])})
	}
	return all
}

// clean makes a text safe for a terminal: texts of users cannot move the cursor.
func clean(s string) string { return messages.OneLine(strings.Join(strings.Fields(s), " ")) }

// Folded breaks a text at spaces, and longer words anywhere, into lines of at most room columns. Room 0 means one line.
func Folded(text string, room int) (lines []string) {
	if room <= 0 {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > room {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			letters := []rune(word)
			lines, word = append(lines, string(letters[:room])), string(letters[room:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
