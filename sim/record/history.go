package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// This file reads the output of `history -o json` of a running cluster. Like any other program, it reads the public
// keys.

// pastJob holds the fields that are read of one finished job.
type pastJob struct {
	ID, Owner, Queue string
	Priority         int32
	SubmittedAt      string
	SubmittedUnixMs  int64
	WaitSeconds      *float64
	GPUSeconds       float64
	TimeLimitSeconds float64
	Gang             *struct {
		Tasks             int
		GPUsPerTask, GPUs float64
	}
	Attempts []struct {
		Tasks int
		GPUs  float64
	}
}

// readHistory reads the finished jobs. The replayed run time is the time for which a job held its GPUs over all
// attempts, from their allocation until all its tasks had ended.
func readHistory(from io.Reader) (*Trace, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if err := toItems(in); err != nil {
		return nil, err
	}
	t := &Trace{}
	for line, at := 1, int64(0); in.More(); {
		next := in.InputOffset()
		next += int64(len(text[next:]) - len(bytes.TrimLeft(text[next:], " \t\r\n,")))
		line, at = line+bytes.Count(text[at:next], []byte("\n")), next
		var j pastJob
		var odd *json.UnmarshalTypeError
		switch err := in.Decode(&j); {
		case errors.As(err, &odd):
			t.Bad = append(t.Bad, BadRow{line, fmt.Sprintf("%s: a %s has the wrong type", odd.Field, odd.Value)})
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		default:
			t.pastRow(line, &j)
		}
	}
	return t.checked()
}

// toItems moves the decoder to the list of jobs.
func toItems(in *json.Decoder) error {
	for {
		word, err := in.Token()
		if err != nil {
			return errors.New("not the output of `history -o json`: no items")
		}
		if word == "items" {
			if open, _ := in.Token(); open != json.Delim('[') {
				return errors.New("not the output of `history -o json`: items is not a list")
			}
			return nil
		}
		if depth, isDelim := word.(json.Delim); isDelim && depth == '[' {
			return errors.New("not the output of `history -o json`")
		}
	}
}

func (t *Trace) pastRow(line int, p *pastJob) {
	tasks, gpus := 0, 0.0
	if n := len(p.Attempts); n > 0 {
		tasks, gpus = p.Attempts[n-1].Tasks, p.Attempts[n-1].GPUs
	}
	if g := p.Gang; g != nil {
		if tasks, gpus = g.Tasks, float64(g.Tasks)*g.GPUsPerTask; g.Tasks == 0 {
			gpus = g.GPUs
		}
	}
	submit := time.Duration(p.SubmittedUnixMs) * time.Millisecond
	if at, err := time.Parse(time.RFC3339, p.SubmittedAt); submit == 0 && err == nil { // from an earlier scheduler
		submit = time.Duration(at.Unix()) * time.Second
	}
	held := 0.0
	if gpus > 0 {
		held = p.GPUSeconds / gpus
	}
	switch {
	case submit <= 0:
		t.Bad = append(t.Bad, BadRow{line, fmt.Sprintf("job %s has no submit time", p.ID)})
	case p.WaitSeconds == nil || len(p.Attempts) == 0:
		t.setAside("never ran")
	case gpus == 0:
		t.setAside("without GPUs")
	case gpus != math.Trunc(gpus) || tasks > 0 && int(gpus)%tasks != 0:
		t.setAside("with a part of a GPU")
	case gpus < 0 || gpus > 1e9 || tasks < 0 || !(held > 0 && held < secondsMost):
		t.Bad = append(t.Bad, BadRow{line, fmt.Sprintf("job %s held %v GPUs for %v seconds", p.ID, gpus, held)})
	default:
		t.Jobs = append(t.Jobs, Job{
			Submit: submit, Duration: secs(held), Limit: secs(min(max(p.TimeLimitSeconds, 0), secondsMost)),
			GPUs: int(gpus), Tasks: tasks,
			Priority: p.Priority, User: p.Owner, Queue: p.Queue, Line: line, Waited: secs(max(*p.WaitSeconds, 0)),
			HasWaited: true,
		})
	}
}
