package fieldpath

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages"
)

// This file owns templates, and the text of a value.

// Template is a text with paths in braces.
type Template []part

// part is a piece of a template.
type part struct {
	text string
	path Path // nil: the part is its text
	body Template
	each bool // the body is repeated for each value of the path
}

// ParseTemplate parses a template, such as {.metadata.name} or {range .items[*]}{.metadata.name}{"\n"}{end}. A text
// without braces is a path.
func ParseTemplate(text string) (Template, error) {
	if !strings.Contains(text, "{") {
		text = "{" + text + "}"
	}
	t, rest, err := parseUntilEnd(text, false)
	if err == nil && rest != "" {
		err = errors.New("{end} without {range}")
	}
	return t, err
}

// parseUntilEnd parses a template up to its {end}, or to the end of the text outside of a range.
func parseUntilEnd(text string, inRange bool) (t Template, rest string, err error) {
	for text != "" {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			t, text = append(t, part{text: text}), ""
			break
		}
		if at > 0 {
			t = append(t, part{text: text[:at]})
		}
		inside, after, err := braces(text[at:])
		if err != nil {
			return nil, "", err
		}
		path, isRange := strings.CutPrefix(inside, "range ")
		switch {
		case inside == "end":
			if inRange {
				return t, after, nil
			}
			return t, inside, nil
		case inside == "":
		case inside[0] == '"' || inside[0] == '\'':
			literal, err := quoted(inside)
			if err != nil {
				return nil, "", err
			}
			t = append(t, part{text: literal})
		default:
			p := part{each: isRange}
			if p.path, err = ParsePath(path); err != nil {
				return nil, "", err
			}
			if isRange {
				if p.body, after, err = parseUntilEnd(after, true); err != nil {
					return nil, "", err
				}
			}
			t = append(t, p)
		}
		text = after
	}
	if inRange {
		return nil, "", errors.New("{range} without {end}")
	}
	return t, "", nil
}

// braces returns the text within the braces at the start of a text, and the text after them. A brace in quotes does not
// count.
func braces(text string) (inside, after string, err error) {
	quote := byte(0)
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '}':
			return strings.TrimSpace(text[1:i]), text[i+1:], nil
		}
	}
	return "", "", errors.New("a } is missing")
}

// quoted returns the text in single or double quotes.
func quoted(text string) (string, error) {
	if text[0] == '\'' && len(text) > 1 && text[len(text)-1] == '\'' {
		text = `"` + strings.ReplaceAll(text[1:len(text)-1], `"`, `\"`) + `"`
	}
	out, err := strconv.Unquote(text)
	if err != nil {
		return "", fmt.Errorf("%s is not a quoted text", text)
	}
	return out, nil
}

// Text returns the text of a template for a JSON value. Several values of one path are separated by spaces.
func (t Template) Text(value any) string {
	var b strings.Builder
	t.write(&b, value)
	return b.String()
}

func (t Template) write(b *strings.Builder, value any) {
	for _, p := range t {
		switch {
		case p.each:
			for _, one := range p.path.Values(value) {
				p.body.write(b, one)
			}
		case p.body == nil && p.text != "":
			b.WriteString(p.text)
		default:
			b.WriteString(TextOf(p.path.Values(value), " "))
		}
	}
}

// TextOf returns the texts of several values. Objects and lists are JSON. Characters that steer a terminal are escaped.
func TextOf(values []any, between string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case string:
			texts[i] = plain(v)
		default:
			var b bytes.Buffer
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(v) // it was decoded from JSON
			texts[i] = plain(strings.TrimSuffix(b.String(), "\n"))
		}
	}
	return strings.Join(texts, between)
}

func plain(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, messages.Steers) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && messages.Steers(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Compare orders two lists of values: numbers by size, and all others by their text. An empty list is first.
func Compare(a, b []any) int {
	if len(a) == 1 && len(b) == 1 {
		x, isX := number(a[0])
		y, isY := number(b[0])
		if isX && isY {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Or(cmp.Compare(min(len(a), 1), min(len(b), 1)), cmp.Compare(TextOf(a, " "), TextOf(b, " ")))
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
