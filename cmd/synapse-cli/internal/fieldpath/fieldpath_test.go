package fieldpath

import (
	"encoding/json"
	"strings"
	"testing"
)

const list = `{"kind":"JobList","items":[
	{"metadata":{"name":"a","labels":{"app.io/x":"1"}},"status":{"gpus":10,"nodes":["n1","n2"]}},
	{"metadata":{"name":"b\u001b[31m"},"status":{"gpus":9,"done":true,"ratio":null}}]}`

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestText checks templates as kubectl accepts them.
func TestText(t *testing.T) {
	value := decoded(t, list)
	for template, want := range map[string]string{
		"{.kind}":                               "JobList",
		".kind":                                 "JobList",
		"kind":                                  "JobList",
		"{$.items[0].metadata.name}":            "a",
		"{.items[*].status.gpus}":               "10 9",
		"{.items[-1].status.done}":              "true",
		"{.items[1].status.ratio}":              "",
		"{.items[5].status}":                    "",
		"{.items[0]['metadata'].name}":          "a",
		`{.items[0].metadata.labels.app\.io/x}`: "1",
		"{.items[0].status.nodes}":              `["n1","n2"]`,
		"{.items[0].status.nodes[*]}":           "n1 n2",
		"{.items[0].status.*}":                  `10 ["n1","n2"]`,
		"{.missing.field}":                      "",
		"{.items[1].metadata.name}":             `b\u001b[31m`,
		`{range .items[*]}{.metadata.name}{"\t"}{.status.gpus}{"\n"}{end}`: "a\t10\nb\\u001b[31m\t9\n",
		`{range .items[*]}{range .status.nodes[*]}<{@}>{end};{end}`:        "<n1><n2>;;",
		`{.kind}{': '}{"{}"}`:            "JobList: {}",
		"gpus: {.items[0].status.gpus}!": "gpus: 10!",
	} {
		parsed, err := ParseTemplate(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := parsed.Text(value); got != want {
			t.Errorf("%s: the text is %q, want %q", template, got, want)
		}
	}
}

// TestRefused checks that each wrong template is refused with its reason.
func TestRefused(t *testing.T) {
	for template, want := range map[string]string{
		"{.items":               "a } is missing",
		"{range .items[*]}{.x}": "{range} without {end}",
		"{.x}{end}":             "{end} without {range}",
		"{..name}":              "recursive path",
		"{.items[?(@.a==1)]}":   "filter",
		"{.items[x]}":           "[x] is not an index",
		"{.items[0}":            "a ] is missing",
		"{.a.}":                 "name is missing",
		`{"a\q"}`:               "not a quoted text",
		"{[0]x}":                "a dot is missing",
	} {
		if _, err := ParseTemplate(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", template, err, want)
		}
	}
}

// TestCompare checks that numbers are ordered by size, and that missing values are first.
func TestCompare(t *testing.T) {
	value := decoded(t, `{"a":9,"b":10,"c":"x","d":"y"}`)
	of := func(path string) []any {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		return p.Values(value)
	}
	for _, pair := range [][2]string{{"a", "b"}, {"c", "d"}, {"none", "a"}, {"none", "c"}} {
		if Compare(of(pair[0]), of(pair[1])) >= 0 || Compare(of(pair[1]), of(pair[0])) <= 0 {
			t.Errorf("%s is not before %s", pair[0], pair[1])
		}
	}
}

// FuzzTemplate checks that no template panics, and that the text of a template has no characters that steer a terminal
// unless the template has them.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"{.kind}", `{range .items[*]}{.metadata.name}{"\n"}{end}`, "{[", "{'", "{range }"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, template string) {
		parsed, err := ParseTemplate(template)
		if err != nil {
			return
		}
		if got := parsed.Text(decoded(t, list)); strings.Contains(got, "\x1b") && !strings.Contains(template, "x1b") &&
			!strings.ContainsAny(template, "\x1b\\") {
			t.Errorf("%q yields %q", template, got)
		}
	})
}
