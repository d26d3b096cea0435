package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests the submit of several documents of standard input.

// TestSplitsDocuments checks where documents begin, and their numbers and lines.
func TestSplitsDocuments(t *testing.T) {
	for _, m := range []struct{ text, want string }{
		{"", ""}, {"---\n# only a comment\n---\n...\n", ""}, {"a: 1", `1:1 "a: 1"`}, {"a: 1\n---\n", `1:1 "a: 1\n"`},
		{"a: 1\n---\nb: 2\n", `1:1 "a: 1\n", 2:2 "---\nb: 2\n"`},
		{"---\r\na: 1\r\n--- # b\r\nb: 2", `1:1 "---\r\na: 1\r\n", 2:3 "--- # b\r\nb: 2"`},
		{"# one\n%YAML 1.2\n---\na: 1\n---\n---\n\n--- {b: 2}\n---x\n --- y\n---\tc\n",
			`1:1 "# one\n%YAML 1.2\n---\na: 1\n", 2:8 "--- {b: 2}\n---x\n --- y\n", 3:11 "---\tc\n"`},
		{"a: |\n  ---\n  b\n---\nc", `1:1 "a: |\n  ---\n  b\n", 2:4 "---\nc"`},
		{"a: " + strings.Repeat("x", 70_000) + "--- y\n---\nb",
			fmt.Sprintf("1:1 %q, 2:2 %q", "a: "+strings.Repeat("x", 70_000)+"--- y\n", "---\nb")},
	} {
		var got []string
		d := newDocuments(strings.NewReader(m.text))
		for doc, err := d.next(); err != io.EOF; doc, err = d.next() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d:%d %q", doc.number, doc.line, doc.text))
		}
		if got := strings.Join(got, ", "); got != m.want {
			t.Errorf("%.200q has the documents\n%.300s, not\n%.300s", m.text, got, m.want)
		}
	}
}

// documentOf returns a document that describes a job.
func documentOf(name string) string { return "---\n" + strings.Replace(jobYAML, "filed", name, 1) }

// TestSubmitStream checks that wrong documents do not stop the others.
func TestSubmitStream(t *testing.T) {
	f := startFake(t)
	text := documentOf("one") + documentOf("two words") + documentOf("three") + "---\nkind: Jbo\n" + documentOf("five")
	names := func() string {
		var all []string
		for _, q := range told[*messages.Submit](f) {
			all = append(all, q.GetSpec().GetName())
		}
		return strings.Join(all, " ")
	}
	got := cliWith(f.address, text, nil, "submit", "-f", "-")
	got.wants(t, exit.Misuse, "Job jnew1 submitted: one, 1 task of 2 GPUs\nJob jnew1 submitted: three, 1 task of 2 GPUs\n"+
		"Job jnew1 submitted: five", "synapse-cli: document 2 (line 6): standard input:9:18: metadata.name")
	got.wants(t, exit.Misuse, "", "standard input:17:7: kind: \"Jbo\" is not a supported kind")
	got.wants(t, exit.Misuse, "", "synapse-cli: document 4 (line 16): standard input:17:1: apiVersion: is missing")
	got.wants(t, exit.Misuse, "", "synapse-cli: jobs submitted: 3, documents read: 5\n")
	if names() != "one three five" || len(told[*messages.DryRun](f)) > 0 {
		t.Errorf("submitted %s, with %d dry runs", names(), len(told[*messages.DryRun](f)))
	}
	got = cliWith(f.address, documentOf("one")+documentOf("two"), nil, "submit", "-", "-q")
	if got.code != 0 || got.out != "jnew1\njnew1\n" || got.err != "" {
		t.Errorf("two documents: %+v", got)
	}
	cliWith(f.address, text, nil, "submit", "-f", "-", "-o", "json").wants(t, exit.Misuse, `"name": "five"`, `document 4`)
	cliWith(f.address, text, nil, "submit", "-f", "-", "--attach").wants(t, exit.Misuse, "", "standard input:9:18")
	cliWith(f.address, documentOf("alone")+"---\n# end\n", nil, "submit", "-f", "-").wants(t, 0, "submitted: alone", "")
	f.refusal = &messages.Outcome{Code: messages.Code_CODE_INFEASIBLE, Text: "needs 2 GPUs, cluster has 0"}
	got = cliWith(f.address, documentOf("one")+documentOf("two"), nil, "submit", "-f", "-")
	got.wants(t, exit.Infeasible, "", "synapse-cli: document 1 (line 1): needs 2 GPUs, cluster has 0")
	got.wants(t, exit.Infeasible, "", "synapse-cli: document 2 (line 6): needs 2 GPUs, cluster has 0")
}

// TestSubmitStreamIsBounded checks that a document that is too long is refused, and needs no memory.
func TestSubmitStreamIsBounded(t *testing.T) {
	f := startFake(t)
	const size = 16 << 20
	long := io.MultiReader(strings.NewReader(documentOf("long")), io.LimitReader(endless("# comment\n"), size),
		io.LimitReader(endless("x"), size), strings.NewReader("\n"+documentOf("after")))
	var out, errs lines
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	code := run([]string{"synapse-cli", "submit", "-f", "-"}, long, &out, &errs,
		func(name string) (string, bool) { return f.address, name == "SYNAPSE_SERVER" })
	runtime.ReadMemStats(&after)
	if code != exit.Misuse || !strings.Contains(out.String(), "submitted: after,") ||
		!strings.Contains(errs.String(), fmt.Sprintf("document 1 (line 1): has more than %d bytes\n", jobfile.MaxBytes)) {
		t.Errorf("ended with %d\n%s%s", code, &out, &errs)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/2 {
		t.Errorf("%d bytes were allocated for documents of %d bytes", used, 2*size)
	}
}

// endless repeats a text.
type endless string

func (e endless) Read(to []byte) (int, error) {
	n := 0
	for n+len(e) <= len(to) {
		n += copy(to[n:], e)
	}
	return max(n, copy(to, e)), nil
}
