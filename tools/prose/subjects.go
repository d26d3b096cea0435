package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// This file checks the subjects of commits.

// subjectForm matches `area: imperative what`.
var subjectForm = regexp.MustCompile(`^[a-z0-9][a-z0-9 ,/.-]*: [a-z0-9]`)

// maxSubject is the longest subject that git's own lists show completely.
const maxSubject = 72

// checkSubjects returns the commits with a wrong subject. It ignores commits from before this check, and a tree without
// its history.
func checkSubjects(root string) (findings []string) {
	const begins = "tools/prose/ceilings.txt" // came with the check
	first, err := git(root, "log", "--diff-filter=A", "--format=%H", "--", begins)
	lines := strings.Fields(first)
	if err != nil || len(lines) == 0 {
		return nil
	}
	subjects, err := git(root, "log", "--no-merges", "--format=%s", lines[len(lines)-1]+"..HEAD")
	if err != nil {
		return nil
	}
	for subject := range strings.Lines(subjects) {
		if why := refuseSubject(strings.TrimSpace(subject)); why != "" {
			findings = append(findings, fmt.Sprintf("commit %q: %s", strings.TrimSpace(subject), why))
		}
	}
	return findings
}

// refuseSubject returns the error in a subject, or an empty string.
func refuseSubject(subject string) string {
	switch {
	case len(subject) > maxSubject:
		return fmt.Sprintf("has %d characters, but at most %d are permitted", len(subject), maxSubject)
	case !subjectForm.MatchString(subject):
		return "write `area: imperative what`, in lower case"
	}
	return ""
}

func git(root string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
	return string(out), err
}
