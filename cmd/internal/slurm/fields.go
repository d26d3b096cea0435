package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file implements columns: the fields of jobs and nodes in Slurm's formats, and the output of a line.

// Field is a field of T.
type Field[T any] struct {
	Letter byte           // for -o; 0: none
	Names  []string       // for -O and sacct; the first is the usual spelling
	Head   string         // header in squeue and sinfo
	Of     func(T) string // nil: always empty
}

// orEmpty returns the field with an empty column if it has no values here.
func (f Field[T]) orEmpty() Field[T] {
	if f.Of == nil {
		f.Of = func(T) string { return "" }
	}
	return f
}

// everything selects all fields, as %all or as a name.
const everything = "all"

// Column is a field with its width in a format.
type Column[T any] struct {
	Field[T]
	Width int  // 0: the width of the value
	Left  bool // left-aligned; otherwise right-aligned
	Cut   bool
	After string // text after the column
	Name  string
}

// Percent parses a format of -o: text, and %[.][width]letter.
func Percent[T any](format string, fields []Field[T]) (before string, columns []Column[T], err error) {
	literal := func(text string) {
		if len(columns) == 0 {
			before += text
			return
		}
		columns[len(columns)-1].After += text
	}
	if format == "%"+everything {
		format = strings.ReplaceAll(letters(fields), " ", "|")
	}
	for format != "" {
		at := strings.IndexByte(format, '%')
		if at < 0 {
			literal(format)
			break
		}
		literal(format[:at])
		spec := format[at+1:]
		right := strings.HasPrefix(spec, ".")
		spec = strings.TrimPrefix(spec, ".")
		digits := spec[:len(spec)-len(strings.TrimLeft(spec, "0123456789"))]
		if spec = spec[len(digits):]; spec == "" {
			return "", nil, &Refusal{Option: "--format", Text: "ends with %"}
		}
		width, known := 0, true
		if digits != "" {
			width, known = columnWidth(digits)
		}
		if !known {
			return "", nil, tooWide("%" + digits)
		}
		found := false
		for _, f := range fields {
			if f.Letter == spec[0] {
				columns = append(columns, Column[T]{Field: f.orEmpty(), Width: width, Left: !right, Cut: width > 0, Name: f.Head})
				found = true
			}
		}
		if !found {
			return "", nil, &Refusal{Option: "--format", Text: fmt.Sprintf("unknown field %%%c", spec[0]),
				Hint: "use " + letters(fields)}
		}
		format = spec[1:]
	}
	return before, columns, nil
}

func letters[T any](fields []Field[T]) string {
	var all []string
	for _, f := range fields {
		if f.Letter != 0 && f.Of != nil {
			all = append(all, "%"+string(f.Letter))
		}
	}
	return strings.Join(all, " ")
}

// Named parses a list of names with widths: name[:[.][width][suffix]] for -O, or name[%[-]width] for sacct.
func Named[T any](list, mark string, usual int, fields []Field[T]) (columns []Column[T], err error) {
	if strings.EqualFold(list, everything) {
		list = strings.ReplaceAll(names(fields), " ", ",")
	}
	for part := range strings.SplitSeq(list, ",") {
		name, digits, sized := strings.Cut(strings.TrimLeft(part, " "), mark)
		name, part = strings.TrimSpace(name), strings.TrimSpace(part)
		width, left, after := usual, mark == ":", ""
		if sized && mark == ":" {
			rest := strings.TrimLeft(strings.TrimPrefix(digits, "."), "0123456789")
			digits, after = strings.TrimSuffix(digits, rest), rest
		}
		switch {
		case sized && mark == ":" && digits == "":
			width = 0 // the width of the value
		case sized:
			digits = strings.TrimSpace(digits)
			if n, is := strings.CutPrefix(digits, "-"); is {
				digits, left = n, true
			}
			if n, is := strings.CutPrefix(digits, "."); is {
				digits, left = n, false
			}
			n, known := columnWidth(digits)
			if width = n; !known || n < 1 {
				return nil, tooWide(part)
			}
		}
		f, ok := fieldOf(name, fields)
		if !ok {
			return nil, &Refusal{Option: "--format", Text: fmt.Sprintf("unknown field %q", name), Hint: "use " +
				names(fields)}
		}
		head := f.Head
		if mark == "%" {
			head = f.Names[0]
		}
		columns = append(columns, Column[T]{Field: f.orEmpty(), Width: width, Left: left, Cut: width > 0, Name: head,
			After: after})
	}
	return columns, nil
}

// FieldNames lists the names of the fields that have values, four in a line.
func FieldNames[T any](fields []Field[T]) string {
	text := ""
	for i, name := range strings.Fields(names(fields)) {
		text += fmt.Sprintf("%-19s ", name)
		if i%4 == 3 {
			text += "\n"
		}
	}
	return text
}

func fieldOf[T any](name string, fields []Field[T]) (Field[T], bool) {
	for _, f := range fields {
		for _, n := range f.Names {
			if strings.EqualFold(n, name) {
				return f, true
			}
		}
	}
	return Field[T]{}, false
}

func names[T any](fields []Field[T]) string {
	var all []string
	for _, f := range fields {
		if len(f.Names) > 0 && f.Of != nil {
			all = append(all, f.Names[0])
		}
	}
	return strings.Join(all, " ")
}

// maxWidth limits the width of a column.
const maxWidth = 100_000

// columnWidth parses the width of a column.
func columnWidth(digits string) (width int, known bool) {
	width, err := strconv.Atoi(digits)
	return width, err == nil && width >= 0 && width <= maxWidth
}

func tooWide(column string) error {
	return &Refusal{Option: "--format", Text: fmt.Sprintf("%q has no valid width", column),
		Hint: fmt.Sprintf("use a number of characters up to %d", maxWidth)}
}

// Line formats one line. cell returns the text of each column, which other users may have written. So line breaks and
// control characters in it are escaped. Those of the format remain, because portals separate columns by them.
func Line[T any](before string, columns []Column[T], cell func(Column[T]) string) string {
	line := before
	for _, c := range columns {
		text := messages.OneLine(cell(c))
		if c.Cut && utf8.RuneCountInString(text) > c.Width {
			text = string([]rune(text)[:c.Width])
		}
		if c.Left {
			line += fmt.Sprintf("%-*s", c.Width, text)
		} else {
			line += fmt.Sprintf("%*s", c.Width, text)
		}
		line += c.After
	}
	return line
}

// Table prints the lines of a format, with optional headers.
func Table[T any](heads bool, before string, columns []Column[T], rows []T, print func(line string) error) error {
	if heads {
		head := Line(before, columns, func(c Column[T]) string { return c.Name })
		if err := print(strings.TrimRight(head, " ")); err != nil {
			return err
		}
	}
	for _, row := range rows {
		line := Line(before, columns, func(c Column[T]) string { return c.Of(row) })
		if err := print(strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// Clock formats a duration like squeue: 1:05, 2:00:05, 1-00:00:05.
func Clock(ms int64) string {
	s := ms / 1000
	switch {
	case s < 3600:
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d-%02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
}

// wide formats a duration like sacct: 00:01:05, 1-00:00:05.
func wide(ms int64) string {
	s := ms / 1000
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if s >= 86400 {
		text = fmt.Sprintf("%d-%s", s/86400, text)
	}
	return text
}

// limit formats a time limit; 0 means unlimited.
func limit(ms int64, write func(int64) string) string {
	if ms == 0 {
		return "UNLIMITED"
	}
	return write(ms)
}

// moment formats a time like Slurm, in the local time zone.
func moment(ms int64, none string) string {
	if ms == 0 {
		return none
	}
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05")
}

// mebibytes formats an amount of memory like Slurm.
func mebibytes(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n%(1<<30) == 0:
		return sbatch.Decimal(n>>30) + "G"
	}
	return sbatch.Decimal(n>>20) + "M"
}
