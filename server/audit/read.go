package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file reads and verifies an audit log.

func parse(text []byte) (line Line, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(&line); err == nil && d.More() {
		err = errors.New("something follows it")
	}
	return line, err
}

// Broken describes the first position at which an audit log was changed.
type Broken struct {
	Account string // name of the log among several; empty: a single log
	Line    uint64
	Why     string
}

func (b *Broken) Error() string {
	text := fmt.Sprintf("line %d: %s", b.Line, b.Why)
	if b.Account != "" {
		text = b.Account + ": " + text
	}
	return text
}

// The number of the first line is part of the name of a full file.
const (
	fullPrefix = "audit-"
	fullSuffix = ".log"
)

// fullFiles returns the full files of a folder in order.
func fullFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // Glob would treat special characters in dir as a pattern
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fullPrefix) && strings.HasSuffix(e.Name(), fullSuffix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return names, err
}

// Account reads all files of an audit log as one stream.
type Account struct {
	io.Reader
	files []*os.File
}

// OpenAccount opens the audit log in a folder. If full files were moved away, the log starts at a later line.
func OpenAccount(dir string) (*Account, error) {
	names, err := fullFiles(dir)
	if err != nil {
		return nil, err
	}
	a := &Account{}
	var parts []io.Reader
	for _, name := range append(names, filepath.Join(dir, File)) {
		file, err := os.Open(name)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.files, parts = append(a.files, file), append(parts, file)
	}
	a.Reader = io.MultiReader(parts...)
	return a, nil
}

// Close closes all files.
func (a *Account) Close() (err error) {
	for _, file := range a.files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// Read passes all lines to each, in order, and returns the head. It stops with a *Broken at the first line that
// does not follow from the previous one. each may be nil, and an error of each also stops Read.
func Read(from io.Reader, each func(Line) error) (head Head, err error) {
	return read(from, func(line Line, _ string) error {
		if each == nil {
			return nil
		}
		return each(line)
	})
}

func read(from io.Reader, each func(line Line, hash string) error) (head Head, err error) {
	lines := bufio.NewReaderSize(from, maxLine)
	begun := false
	for n := uint64(1); ; n++ {
		text, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return head, nil
		case errors.Is(err, io.EOF):
			return head, &Broken{Line: n, Why: "incomplete"}
		case errors.Is(err, bufio.ErrBufferFull):
			return head, &Broken{Line: n, Why: "too long"}
		case err != nil:
			return head, err
		}
		text = bytes.TrimSuffix(text, []byte("\n"))
		line, err := parse(text)
		if err == nil && !begun && line.N > 1 && line.Prev != "" { // earlier lines were moved away
			n, head = line.N, Head{line.N - 1, line.Prev}
		}
		begun = true
		switch {
		case err != nil:
			return head, &Broken{Line: n, Why: "unreadable: " + err.Error()}
		case line.N != n:
			return head, &Broken{Line: n, Why: fmt.Sprintf("has the number %d", line.N)}
		case line.Prev != head.Hash:
			return head,
				&Broken{Line: n, Why: "does not follow from the previous line: one of the two was changed"}
		}
		head = Head{n, hashOf(text)}
		if err := each(line, head.Hash); err != nil {
			return head, err
		}
	}
}

// headLine matches a log line that contains only a head, as text or as JSON, with an optional prefix of the system
// journal. A head within other text does not match, because a user may have submitted that text.
var headLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[\w:.+-]+(?: {1,2}[\w:.+-]+){1,4}\[\d+\]: )?` +
		`(?:\{"time":"[^"\\]*","level":"info","message":"|(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)? )?)` +
		headWords + `(\d+) ([0-9a-f]{64})(?:"(?:,"epoch":\d+)?\})?$`)
})

// Heads finds all logged heads in a text, such as a scheduler's log.
func Heads(in io.Reader) (all []Head, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		found := headLine().FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		if n, err := strconv.ParseUint(found[1], 10, 64); err == nil {
			all = append(all, Head{n, found[2]})
		}
	}
	return all, lines.Err()
}

// verify reads an audit log to its end and compares it with heads that were kept elsewhere. Only such a head
// reveals a removed end, or a changed line whose following hashes were recomputed. first is the number of the first
// line. If it is not 1, earlier lines were moved away or lost. each, if not nil, receives every line.
func verify(from io.Reader, kept []Head, each func(Line)) (first uint64, head Head, err error) {
	byLine := map[uint64][]string{}
	for _, h := range kept {
		byLine[h.N] = append(byLine[h.N], h.Hash)
	}
	head, err = read(from, func(line Line, hash string) error {
		if first == 0 {
			first = line.N
			if before := byLine[first-1]; first > 1 && len(before) > 0 && !slices.Contains(before, line.Prev) {
				return &Broken{Line: first, Why: "does not follow from a head that was kept elsewhere"}
			}
		}
		for _, other := range byLine[line.N] {
			if other != hash {
				return &Broken{Line: line.N,
					Why: "differs from a head that was kept elsewhere: this line or an earlier one was changed"}
			}
		}
		if each != nil {
			each(line)
		}
		return nil
	})
	if err != nil {
		return first, head, err
	}
	for _, h := range kept {
		if h.N > head.N {
			return first, head, &Broken{Line: head.N + 1,
				Why: fmt.Sprintf("missing: a head that was kept elsewhere is of line %d", h.N)}
		}
	}
	return first, head, nil
}
