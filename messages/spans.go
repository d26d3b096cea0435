package messages

import "strconv"

// This file writes many ranks briefly.

// Spans writes sorted ranks as ranges, such as 0-4 and 6-7.
func Spans(ranks []int32) (spans []string) {
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		text := strconv.Itoa(int(ranks[i]))
		if j > i {
			text += "-" + strconv.Itoa(int(ranks[j]))
		}
		spans, i = append(spans, text), j+1
	}
	return spans
}
