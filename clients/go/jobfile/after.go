package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/messages"
)

// This file parses dependencies on other jobs: an ID, a prefix of an ID or a name, then a colon and the
// required result. One result after several jobs applies to all of them.

// ParseAfter reads train-7f,prep:any.
func ParseAfter(text string) (all []*messages.After, problem *Problem) {
	open := 0 // index of the first job without a result
	for _, part := range scope.Split(text, ",") {
		job, word, has := scope.Cut(strings.TrimSpace(part), ":")
		word, later, delayed := strings.Cut(word, "+")
		end, known := messages.AfterEndOf(word)
		switch {
		case job == "":
			return nil, say("write train-7f or train-7f:any", "%s is not a job", quote(text))
		case has && !known && isEnd(strings.TrimPrefix(job, "after")):
			return nil, say("write the job first, as in train-7f:"+strings.TrimPrefix(job, "after"),
				"%s must be written after the job",
				quote(job))
		case has && !known:
			return nil, say("use "+strings.Join(messages.EndWords(), ", "), "%s is not an end of a job", quote(word))
		}
		one := &messages.After{Job: job}
		if delayed {
			ms, err := ParseDuration(later)
			if err != nil {
				return nil, say("write train-7f:started+10m", "%s is not a duration", quote(later))
			}
			one.DelayMs = ms
		}
		all = append(all, one)
		if has {
			for _, a := range all[open:] {
				a.End = end
			}
			open = len(all)
		}
	}
	return all, nil
}

func isEnd(word string) bool {
	_, known := messages.AfterEndOf(word)
	return known
}

// Valid checks a new job whose dependencies may still name elements of arrays, such as J_[5-6]. Only a
// scheduler can resolve these elements. Valid therefore checks only the job before the brackets.
func Valid(spec *messages.JobSpec) error {
	written := spec.After
	defer func() { spec.After = written }()
	spec.After = nil
	for _, after := range written {
		job := after.GetJob()
		if s, err := scope.Parse(job); err == nil && s.Bracketed {
			job = s.Job
		}
		spec.After = append(spec.After, &messages.After{Job: job, End: after.GetEnd(), DelayMs: after.GetDelayMs()})
	}
	return spec.ValidateNew()
}

// FormatAfter formats each dependency as one word.
func FormatAfter(all []*messages.After) (words []string) {
	for _, a := range all {
		word := strings.TrimSuffix(a.GetJob()+":"+a.GetEnd().Word(), ":")
		if a.GetDelayMs() > 0 {
			word += "+" + FormatDuration(a.GetDelayMs())
		}
		words = append(words, word)
	}
	return words
}

// readAfter reads a list, or a single word.
func readAfter(r *reader, n *yaml.Node, path string) {
	parts := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		parts = n.Content
	}
	for i, part := range parts {
		at := path
		if n.Kind == yaml.SequenceNode {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		all, ok := parsed(r, part, at, "a job", ParseAfter)
		for k := range all {
			r.where[fmt.Sprintf("after[%d]", len(r.spec.After)+k)] = placeOf(at, part)
		}
		if ok {
			r.spec.After = slices.Concat(r.spec.After, all)
		}
	}
}
