package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file tests the JSON of requests with the JSON library, which the program does not contain.

// filled returns a value without a zero field.
func filled[T any](t *testing.T) (of T) {
	t.Helper()
	fill(t, reflect.ValueOf(&of).Elem())
	return of
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name + " \"\\\n\x01\u00e9\U0001f600{")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"", "{", "a\tb"}))
		case reflect.Struct:
			fill(t, f)
		default:
			t.Fatalf("field %s has the unknown kind %s", v.Type().Field(i).Name, f.Kind())
		}
	}
}

func decoded[T comparable](t *testing.T, body []byte, want T) {
	t.Helper()
	var got T
	if err := json.Unmarshal(body, &got); err != nil || got != want {
		t.Errorf("%s becomes %+v (%v), not %+v", body, got, err, want)
	}
}

// TestRequestsAreComplete checks that each field of a request is sent.
func TestRequestsAreComplete(t *testing.T) {
	q, c, b := filled[command.Queue](t), filled[command.Choice](t), filled[command.Batch](t)
	decoded(t, ofQueue(&q), q)
	decoded(t, ofChoice(&c), c)
	decoded(t, ofQueue(&command.Queue{}), command.Queue{})
	var got command.Batch
	if err := json.Unmarshal(ofBatch(&b), &got); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%s becomes %+v (%v), not %+v", ofBatch(&b), got, err, b)
	}
}

// TestTakes checks which options of squeue and scancel are served.
func TestTakes(t *testing.T) {
	queue := func(words ...string) (q command.Queue, rest []string, ok bool) {
		rest, ok = byName(command.QueueOptions()).take(&q, words, ignored)
		return q, rest, ok
	}
	q, rest, ok := queue("-hj", "7", "-j8", "--jobs=9", "--me", "-u", "ann", "-t", "PD,R", "-rlo", "%i")
	want := command.Queue{Format: "%i", Each: true, Long: true, NoHeader: true,
		Choice: command.Choice{JobList: "7,8,9", Me: true, Users: "ann", StateList: "PD,R"}}
	if !ok || len(rest) > 0 || q != want {
		t.Errorf("the options are %+v, not %+v; rest %q, %v", q, want, rest, ok)
	}
	if q, _, ok := queue("--me", "--me=false"); !ok || q.Me {
		t.Errorf("--me=false: %v, %v", q.Me, ok)
	}
	for _, words := range [][]string{{"--me=soon"}, {"-j"}, {"--json"}, {"-hx"}, {"-j=7"}, {"--job", "7"}} {
		if _, _, ok := queue(words...); ok {
			t.Errorf("squeue %q is served", words)
		}
	}
	for _, words := range [][]string{{}, {"7", "--me"}, {"7.0"}, {"-s", "USR1", "7"}, {""}, {"-n", ""}} {
		if _, ok := chosenIn(words); ok {
			t.Errorf("scancel %q is served", words)
		}
	}
	if c, ok := chosenIn([]string{"-n", "x", "7", "8_[1,3]"}); !ok || c.JobList != "7,8_[1,3]" || c.Names != "x" {
		t.Errorf("scancel chooses %+v, %v", c, ok)
	}
	var b sbatch.Plain
	if _, ok := byName(sbatch.Options()).take(&b, []string{"-QH", "-N2"}, ignored); !ok || !b.Hold || b.Nodes != 2 {
		t.Errorf("sbatch -QH -N2: %+v, %v", b, ok)
	}
}
