package record

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
)

// This file recognises the format of a record. A record is a foreign file, so its content is never trusted to be
// ordered or complete.

// Formats returns the formats of records that can be read.
func Formats() []string { return []string{"csv", "swf", "sacct", "history"} }

// Input tells how to read a record.
type Input struct {
	Format     string    // one of Formats; empty: detect it from the content
	Limits     io.Reader // for CSV: a second file with the jobs' limits; may be nil
	ProcsToGPU int       // for SWF: the number of processors that stand for one GPU
}

// Read reads a record, compressed or not.
func Read(from io.Reader, s Input) (*Trace, error) {
	plain, err := decompressed(from)
	if err != nil {
		return nil, err
	}
	format := s.Format
	if format == "" {
		format = formatOf(plain)
	}
	switch format {
	case "swf":
		return readSWF(plain, max(s.ProcsToGPU, 1))
	case "sacct":
		return readSacct(plain)
	case "history":
		return readHistory(plain)
	case "csv":
		return ReadCSV(plain, s.Limits)
	}
	return nil, fmt.Errorf("unknown format %q: use %s", format, strings.Join(Formats(), ", "))
}

// peekBytes is the part of a record that is examined to recognise its format. A comment of an SWF file may be long.
const peekBytes = 1 << 16

// formatOf recognises a record by its first line. An unknown format counts as CSV, whose reader reports the missing
// columns.
func formatOf(from *bufio.Reader) string {
	text, _ := from.Peek(peekBytes)
	line, _, _ := strings.Cut(strings.TrimLeft(string(text), " \t\r\n\ufeff"), "\n")
	fields := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "{"):
		return "history"
	case strings.HasPrefix(line, ";"):
		return "swf"
	case slices.Contains(strings.Split(strings.TrimSpace(line), "|"), sacctID):
		return "sacct"
	case len(fields) >= swfFields && !strings.Contains(line, ","):
		return "swf"
	}
	return "csv"
}

// decompressed returns a file's content, whether it is compressed or not.
func decompressed(from io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(from, peekBytes)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(z, peekBytes), nil
	}
	return buffered, nil
}

// eachLine visits the lines of a text, with their numbers.
func eachLine(from io.Reader, visit func(number int, text string) error) error {
	in := bufio.NewScanner(from)
	in.Buffer(nil, 1<<20)
	for number := 1; in.Scan(); number++ {
		if err := visit(number, strings.TrimRight(in.Text(), "\r")); err != nil {
			return err
		}
	}
	return in.Err()
}
