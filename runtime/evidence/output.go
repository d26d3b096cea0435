package evidence

import (
	"path"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
)

// This file reads the end of a task's output: its last lines, and the last Python traceback.

const (
	// TailBytes is how much of the end of an output is searched for a traceback.
	TailBytes = 64 << 10
	// maxOutput bounds all lines of output in an evidence, and maxLine each line.
	maxOutput = 2 << 10
	maxLine   = 256
	begins    = "Traceback (most recent call last):"
)

// Printed adds the last lines of an output and its last traceback to an evidence.
func Printed(output []byte, to *messages.Evidence) {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(output), "\r\n", "\n"), "\n \t"), "\n")
	to.Output = lastLines(lines)
	to.Error, to.Frame = Traceback(lines)
}

func lastLines(lines []string) []string {
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	lines = lines[max(0, len(lines)-messages.MaxEvidenceLines):]
	kept, bytes := make([]string, len(lines)), 0
	for i := len(lines) - 1; i >= 0; i-- {
		line := Line(lines[i])
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "")
		}
		if bytes += len(line); bytes > maxOutput {
			return kept[i+1:]
		}
		kept[i] = line
	}
	return kept
}

// Traceback returns the error and the place of the last Python traceback, such as "KeyError: 'x'" and "train.py:211".
// An output can have several: of the processes of a task, and of an exception during the handling of another. A
// traceback that tells of the end of another process counts only if there is no other.
func Traceback(lines []string) (text, frame string) {
	for i := len(lines) - 1; i >= 0; i-- {
		at := strings.Index(lines[i], begins)
		if at < 0 {
			continue
		}
		e, f := parseTraceback(lines[i+1:], lines[i][:at])
		switch {
		case e != "" && !verdict.Echo(e):
			return e, f
		case e != "" && text == "":
			text, frame = e, f
		}
	}
	return text, frame
}

// parseTraceback parses the lines after the beginning of a traceback. Launchers put a prefix such as "[rank3]: " before
// each line. Lines without the prefix come from other processes.
func parseTraceback(lines []string, prefix string) (text, frame string) {
	frames := 0
	var own string
	for _, line := range lines {
		line, mine := strings.CutPrefix(line, prefix)
		switch {
		case !mine:
			continue
		case strings.HasPrefix(line, "  File \""):
			frame = place(line)
			if frames++; !library(line) {
				own = frame
			}
		case strings.HasPrefix(line, " ") || line == "" && text == "" && frames == 0:
		case line == "" || frames == 0:
			return "", ""
		default:
			if own != "" {
				frame = own
			}
			return Line(line), Line(frame)
		}
	}
	return "", ""
}

// place returns the file and the line number of a frame.
func place(line string) string {
	file, rest, _ := strings.Cut(strings.TrimPrefix(line, "  File \""), "\"")
	_, rest, found := strings.Cut(rest, "line ")
	number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if !found || number == "" {
		return path.Base(file)
	}
	return path.Base(file) + ":" + number
}

// library reports whether a frame belongs to Python or to an installed package.
func library(line string) bool {
	for _, part := range []string{"/site-packages/", "/dist-packages/", "/lib/python", "<frozen "} {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}
