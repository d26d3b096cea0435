package messages

import (
	"fmt"
	"slices"
	"strings"
)

// This file describes the suspicion against a node in words.

// SuspicionWords describes why a node is suspected, or returns "" if it is not.
func SuspicionWords(s *Suspicion) string {
	if !s.GetSuspected() {
		return ""
	}
	var owners, classes []string
	for _, f := range s.GetFailures() {
		if !slices.Contains(owners, f.GetOwner()) {
			owners = append(owners, f.GetOwner())
		}
		if class := Word(f.GetClass().String(), "FAILURE_CLASS_"); !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	who := "1 owner"
	if len(owners) != 1 {
		who = fmt.Sprintf("%d owners", len(owners))
	}
	return fmt.Sprintf("suspected: %d failures of jobs of %s (%s)", len(s.GetFailures()), who, strings.Join(classes, ", "))
}
