package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// FuzzLogLines checks that each call writes one line without control characters, whatever the arguments and verbs. In
// JSON the line is one object. Only a stack, which is a byte slice, has line breaks.
func FuzzLogLines(f *testing.F) {
	f.Add("x\n2026/11/28 12:00:00.000000 Audit head 7 " + strings.Repeat("a", 64))
	f.Add("a\r\x1b[2J\u009b\u202e\u2028\x9b\t")
	f.Fuzz(func(t *testing.T, s string) {
		for _, format := range LogFormats {
			var told strings.Builder
			log := NewLogIn(format, &told, true)
			log.Info("Job %s of %v: %q, %v %+v %d %s", topology.JobID(s), s, s, errors.New(s), &messages.Label{Key: s}, 7,
				time.Second)
			log.With("job", s).Warn("%s", fmt.Errorf("no: %w", errors.New(s)))
			log.Error("%T of %v, %s", &messages.Label{}, struct{ Name string }{s}, []string{s})
			log.Debug("%v", []any{s})
			text := strings.TrimSuffix(told.String(), "\n")
			lines := strings.Split(text, "\n")
			if len(lines) != 4 || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), messages.Steers) {
				t.Fatalf("%s: %d lines: %q", format, len(lines), text)
			}
			if !strings.Contains(lines[2], "*messages.Label of") {
				t.Errorf("a type is written as %q", lines[2])
			}
			for _, line := range lines {
				if format == JSONLog && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %q", line)
				}
			}
		}
	})
}

// TestStacksHaveLines checks that a stack is readable.
func TestStacksHaveLines(t *testing.T) {
	var told strings.Builder
	NewLog(&told, false).Info("BUG in %s: %v\n%s", "job", "a\nb", []byte("one\ntwo\x1b\n"))
	if got := told.String(); !strings.HasSuffix(got, "BUG in job: a\\nb\none\ntwo\\u001b\n") {
		t.Errorf("%q", got)
	}
}
