// Package spelling suggests corrections of misspelled words.
package spelling

import (
	"fmt"
	"strings"
)

// This file finds the nearest of a list of words.

// Meant suggests the nearest word, or lists all words if none is near.
func Meant(s string, words []string) string {
	if near := Nearest(s, words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "use " + strings.Join(words, ", ")
}

// Nearest returns the most similar word: equal except for case and separators, a word with a common prefix, or a word
// with few typing errors. It returns "" if no word is similar.
func Nearest(s string, words []string) string {
	bare := bared(s)
	if bare == "" || len(bare) > 40 {
		return ""
	}
	best, least := "", 3
	for _, w := range words {
		target := bared(w)
		distance := slips(bare, target)
		switch {
		case bare == target:
			return w
		case len(bare) >= 3 && (strings.HasPrefix(target, bare) || strings.HasPrefix(bare, target) && len(target) >= 3):
			distance = min(distance, 1)
		case distance > max(1, min(len(bare), len(target))/3):
			continue
		}
		if distance < least {
			best, least = w, distance
		}
	}
	return best
}

func bared(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// slips returns the number of edits between two words. An edit adds, removes or changes a letter, or swaps two
// neighbours.
func slips(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			now[j] = min(change, last[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
