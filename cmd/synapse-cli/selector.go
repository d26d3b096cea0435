package main

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements -l, which selects jobs or nodes by labels.

// selector holds the conditions of -l, all of which must hold: key=value, key!=value, or only a key that must
// exist. Several are separated by commas.
type selector []condition

type condition struct {
	key, value string
	not, bare  bool
}

const selectorHelp = "`key=value`, key!=value or key, several separated by commas"

func parseSelector(entries []string) (selector, error) {
	var s selector
	for _, entry := range entries {
		for text := range strings.SplitSeq(entry, ",") {
			key, value, has := strings.Cut(text, "=")
			t := condition{key: key, value: value, bare: !has}
			if bare, is := strings.CutSuffix(key, "!"); is && has {
				t.key, t.not = bare, true
			}
			// Kubernetes also accepts ==
			if t.value = strings.TrimPrefix(t.value, "="); t.key == "" || strings.ContainsAny(t.key, " !") {
				return nil, exit.Hint("write key=value, key!=value or key", "--label %q: not a selector", text)
			}
			s = append(s, t)
		}
	}
	return s, nil
}

// equal returns the conditions that a scheduler can check.
func (s selector) equal() []*messages.Label {
	var all []*messages.Label
	for _, t := range s {
		if !t.bare && !t.not && !slices.ContainsFunc(all, func(l *messages.Label) bool { return l.GetKey() == t.key }) {
			all = append(all, &messages.Label{Key: t.key, Value: t.value})
		}
	}
	return all
}

// matches reports whether the labels satisfy all conditions.
func (s selector) matches(labels []*messages.Label) bool {
	for _, t := range s {
		found := slices.ContainsFunc(labels, func(l *messages.Label) bool {
			return l.GetKey() == t.key && (t.bare || l.GetValue() == t.value)
		})
		if found == t.not {
			return false
		}
	}
	return true
}

func (s selector) job(j *messages.JobStatus) bool {
	return s.matches(j.GetRecord().GetSpec().GetLabels())
}

// node checks a node's labels and topology domains.
func (s selector) node(n *messages.NodeStatus) bool {
	a := n.GetRecord().GetAnnouncement()
	return s.matches(slices.Concat(a.GetLabels(), a.GetPlace()))
}
