package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// This file reads and compares the ceilings: how often each pattern may occur.

// ceiling is the maximum number of occurrences of a pattern, and its goal.
type ceiling struct{ most, goal int }

// readCeilings reads a line for each rule: its name, its ceiling, and its goal.
func readCeilings(path string) (map[string]ceiling, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return map[string]ceiling{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]ceiling{}
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: want NAME CEILING GOAL", path, number+1)
		}
		most, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
		}
		goal, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
		}
		all[fields[0]] = ceiling{most, goal}
	}
	return all, nil
}

// writeCeilings writes the counts as ceilings. It never increases an existing ceiling.
func writeCeilings(path string, old map[string]ceiling, counts map[string]int) error {
	var b strings.Builder
	b.WriteString("# How often each pattern of tools/prose may occur in what people read, and the goal.\n" +
		"# A ceiling only shrinks: `go -C tools run ./prose -root .. -lower` writes the counts of now.\n")
	for _, l := range limits {
		most := counts[l.name]
		if before, known := old[l.name]; known {
			most = min(most, before.most)
		}
		fmt.Fprintf(&b, "%s %d %d\n", l.name, max(most, l.goal), l.goal)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// compare returns the patterns that exceed their ceilings, and as notes the ceilings that could be lower.
func compare(ceilings map[string]ceiling, counts map[string]int) (findings, notes []string) {
	for _, l := range limits {
		c, known := ceilings[l.name]
		switch n := counts[l.name]; {
		case !known:
			findings = append(findings, fmt.Sprintf("%s: no ceiling: run with -lower", l.name))
		case n > c.most:
			findings = append(findings, fmt.Sprintf("%s: %d, at most %d: %s (-list %s prints them)", l.name, n, c.most,
				l.rule.instead, l.name))
		case n < c.most && c.most > c.goal:
			notes = append(notes, fmt.Sprintf("%s: %d, but the ceiling is %d: run with -lower", l.name, n, c.most))
		}
	}
	return findings, notes
}
