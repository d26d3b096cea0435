package share

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// This file checks the syntax of a queue's owners. The owners take effect when a job is submitted.

const (
	maxOwners     = 1_000
	maxOwnerBytes = 128 // of a name, as in certificates
	maxGroupBytes = 253
	groupPrefix   = "group:" // same as in package messages
)

// owners refuses a list that is too long, and entries that can match no owner.
func (c *queuesCheck) owners(i int) {
	list := c.Queues.Queues[i].Owners
	if len(list) > maxOwners {
		c.say(i, "owners", "use groups", "has %d entries, more than %d", len(list), maxOwners)
		return
	}
	for n, entry := range list {
		text, hint := wrongOwner(entry)
		if first := slices.Index(list, entry); text == "" && first < n {
			text = "is a duplicate"
		}
		if text != "" {
			c.say(i, fmt.Sprintf("owners[%d]", n), hint, "%.260q %s", entry, text)
		}
	}
}

// wrongOwner returns why an entry can match no owner, with a suggestion. It returns "" for a valid entry.
func wrongOwner(entry string) (text, hint string) {
	group, grouped := strings.CutPrefix(entry, groupPrefix)
	switch {
	case entry == "*":
		return "is not a name", "omit owners to allow all users"
	case grouped && group == "":
		return "has no group name", "write group:NAME"
	case grouped && strings.TrimSpace(group) != group:
		return "starts or ends with a space", "write group:NAME, without spaces around the name"
	case grouped && (len(group) > maxGroupBytes || strings.ContainsFunc(group, unprintable)):
		return "is not a group: use at most 253 bytes of printable text", ""
	case !grouped && (len(entry) > maxOwnerBytes || entry == "" || strings.ContainsFunc(entry, notOfName)):
		return "is not an owner: use 1 to 128 letters, digits and -_.:",
			"write a name as in the column OWNER, or a group of the issuer as group:NAME"
	}
	return "", ""
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

func notOfName(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-_.:", r)
}
