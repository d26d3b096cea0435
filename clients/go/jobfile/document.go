package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// This file parses bytes into YAML trees that are safe to read: without anchors, tags and duplicate keys, and
// with limited depth.

const (
	// MaxBytes limits the size of a job file.
	MaxBytes = 1 << 20
	// maxDocuments limits the number of jobs in one file.
	maxDocuments = 1000
	maxDepth     = 32
)

// documents parses the text and checks the tree of each document.
func documents(data []byte) ([]*yaml.Node, Problems) {
	if len(data) > MaxBytes {
		return nil, Problems{say("put large data into separate files", "is %d bytes, more than %d", len(data),
			MaxBytes)}
	}
	if p := plain(data); p != nil {
		return nil, Problems{p}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(asYAML(data)))
	var roots []*yaml.Node
	for {
		var doc yaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF) && len(roots) == 0:
			return nil, Problems{say("start a job file with `apiVersion: synapse/v1`", "is empty")}
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, Problems{syntax(data, err)}
		case len(roots) == maxDocuments:
			return nil, Problems{say("submit the rest from another file", "has more than %d documents", maxDocuments)}
		}
		if len(roots) > 0 && doc.Content[0].Tag == "!!null" {
			continue // the document after a final --- is empty
		}
		// Each tree is checked before the next document is parsed, so problems are reported in the
		// order of the file.
		var w walk
		w.node(&doc, 0)
		if w.problems != nil {
			return nil, w.problems
		}
		if roots = append(roots, listed(doc.Content[0])...); len(roots) > maxDocuments {
			return nil, Problems{say("submit the rest from another file", "has more than %d jobs", maxDocuments)}
		}
	}
}

// listed returns the jobs of a list in the format of `get jobs -o yaml`, or else the document itself.
func listed(root *yaml.Node) []*yaml.Node {
	var kind string
	var items *yaml.Node
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		switch value := root.Content[i+1]; root.Content[i].Value {
		case "kind":
			kind = value.Value
		case "items":
			items = value
		}
	}
	if kind != "JobList" || items == nil || items.Kind != yaml.SequenceNode || len(items.Content) == 0 {
		return []*yaml.Node{root}
	}
	return items.Content
}

// JSON may escape a slash, and writes a character above U+FFFF as two escapes. The YAML parser supports
// neither. The first alternative skips an escaped backslash.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\\\|\\/|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
})

// asYAML replaces the parts of JSON that are not valid YAML: tabs between tokens, and some escapes. JSON
// strings contain no tabs.
func asYAML(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	for _, end := range "\u0085\u2028\u2029" { // line ends in YAML but not in JSON
		data = bytes.ReplaceAll(data, []byte(string(end)), fmt.Appendf(nil, `\u%04x`, end))
	}
	return escapes().ReplaceAllFunc(data, func(escape []byte) []byte {
		var s string
		if string(escape) == `\\` || json.Unmarshal([]byte(`"`+string(escape)+`"`), &s) != nil {
			return escape
		}
		return []byte(s)
	})
}

// plain refuses data that is not text, and reports the position. The parser would report no position.
func plain(data []byte) *Problem {
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		p := &Problem{Line: line, Column: column, Hint: "save the file as UTF-8 text"}
		switch {
		case r == utf8.RuneError && size == 1:
			p.Text = "is not UTF-8 text"
			return p
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85:
			p.Text = fmt.Sprintf("contains the control character %U", r)
			return p
		case r == '\n':
			line, column = line+1, 0
		}
		column++
		rest = rest[size:]
	}
	return nil
}

var yamlWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)
})

// syntax converts an error of the parser into a problem. The parser reports only lines. The column is
// therefore the first letter of the line, or the position of a known cause.
func syntax(data []byte, err error) *Problem {
	words := yamlWords().FindStringSubmatch(err.Error())
	if words == nil {
		return &Problem{Text: strings.ReplaceAll(err.Error(), "\n", " ")}
	}
	p := &Problem{Text: words[2]}
	p.Line, _ = strconv.Atoi(words[1])
	lines := strings.Split(string(data), "\n")
	if name, is := strings.CutPrefix(p.Text, "unknown anchor '"); is {
		name, _, _ = strings.Cut(name, "'")
		for i, line := range lines {
			if at := strings.Index(line, "*"+name); at >= 0 {
				return aliased(i+1, utf8.RuneCountInString(line[:at])+1)
			}
		}
	}
	if p.Line < 1 || p.Line > len(lines) {
		p.Line, p.Column = len(lines), 1
		return p
	}
	line := lines[p.Line-1]
	p.Column = len(line) - len(strings.TrimLeft(line, " ")) + 1
	if strings.Contains(p.Text, "cannot start any token") && strings.HasPrefix(line[p.Column-1:], "\t") {
		p.Text, p.Hint = "starts with a tab", "indent with spaces"
	}
	return p
}

func aliased(line, column int) *Problem {
	return &Problem{Line: line, Column: column, Text: "is an alias",
		Hint: "write the value out: anchors and aliases are not supported"}
}

// walk checks a tree before any value is used.
type walk struct{ problems Problems }

func (w *walk) refuse(n *yaml.Node, hint, format string, args ...any) {
	if len(w.problems) < maxProblems {
		p := say(hint, format, args...)
		p.Line, p.Column = n.Line, n.Column
		w.problems = append(w.problems, p)
	}
}

func (w *walk) node(n *yaml.Node, depth int) {
	switch {
	case depth > maxDepth:
		w.refuse(n, "", "is nested more than %d deep", maxDepth)
		return
	case n.Kind == yaml.AliasNode:
		w.problems = append(w.problems, aliased(n.Line, n.Column))
		return
	case n.Anchor != "":
		w.refuse(n, "write the value out: anchors and aliases are not supported", "has the anchor %s",
			quote("&"+n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		w.refuse(n, "remove it", "has the tag %s", quote(n.Tag))
	}
	if n.Kind == yaml.MappingNode {
		w.keys(n)
	}
	for _, part := range n.Content {
		w.node(part, depth+1)
		if len(w.problems) >= maxProblems {
			return
		}
	}
}

// keys refuses duplicate keys and keys that are not text.
func (w *walk) keys(n *yaml.Node) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			continue // The alias itself is refused.
		}
		if key.Kind != yaml.ScalarNode {
			w.refuse(key, "", "must be a string key")
			continue
		}
		if first, twice := lines[key.Value]; twice {
			w.refuse(key, fmt.Sprintf("first set in line %d", first), "duplicate key %s", quote(key.Value))
			continue
		}
		lines[key.Value] = key.Line
	}
}
