package gateway

// This file tests requests for the timeline.

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/server/api"
)

// kept is a fake timeline with this many lines.
type kept struct {
	lines int
	err   error
}

func (k kept) Since() int64 { return 5 }

func (k kept) Moments(at, until int64, take func([]byte) error) (int64, error) {
	for range k.lines {
		if err := take([]byte(strings.Repeat("m", 1000))); err != nil {
			return 0, err
		}
	}
	return (at + until) / 2, k.err
}

func (k kept) Sums(_, _, _ int64, take func([]byte) error) error { return take([]byte("sum")) }

// says reports whether an error has a code and contains these words.
func says(err error, code codes.Code, words string) bool {
	return status.Code(err) == code && strings.Contains(err.Error(), words)
}

// TestPast checks that the timeline arrives in parts that fit into messages, with its start and end. Without a
// timeline, and for an invalid request, the call returns an error.
func TestPast(t *testing.T) {
	var past Past
	d := newRoom(t).door(newRoom(t).system("scheduler"), Options{Past: func() Past { return past }})
	ask := func(q *api.ReadPast) (text string, since, until int64, err error) {
		from, err := d.SynapseClient.ReadPast(timely(t), q)
		for err == nil {
			var part *api.PastPart
			if part, err = from.Recv(); err == nil {
				text += string(part.GetLines())
				since, until = max(since, part.GetSinceUnixMs()), max(until, part.GetUntilUnixMs())
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return text, since, until, err
	}
	if _, _, _, err := ask(&api.ReadPast{UntilUnixMs: 10}); !says(err, codes.Unavailable, "timeline is not stored") {
		t.Errorf("without a past: %v", err)
	}
	past = kept{lines: 6_000}
	text, since, until, err := ask(&api.ReadPast{UntilUnixMs: 10})
	if err != nil || len(text) != 6_000*1001 || since != 5 || until != 5 {
		t.Errorf("%d bytes since %d until %d: %v", len(text), since, until, err)
	}
	if text, _, _, err := ask(&api.ReadPast{UntilUnixMs: 10, StepMs: 1}); text != "sum\n" || err != nil {
		t.Errorf("sums are %q: %v", text, err)
	}
	past = kept{lines: 1, err: errors.New("the disk is gone")}
	if _, _, _, err := ask(&api.ReadPast{UntilUnixMs: 10}); !says(err, codes.Unavailable, "the disk is gone") {
		t.Errorf("of a past that cannot be read: %v", err)
	}
	for field, q := range map[string]*api.ReadPast{
		"until_unix_ms": {AtUnixMs: 10, UntilUnixMs: 9}, "at_unix_ms": {AtUnixMs: -1},
		"step_ms": {UntilUnixMs: 1_000_000, StepMs: 1},
	} {
		if _, _, _, err := ask(q); !says(err, codes.InvalidArgument, field) {
			t.Errorf("%v: %v", q, err)
		}
	}
}
