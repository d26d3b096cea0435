package main

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/cmd/internal/command"
)

// This file serves squeue and scancel. The scheduler selects the jobs and writes the output, so one request is enough.

// squeue lists jobs, and reports whether that succeeded.
func (c *call) squeue(words []string) bool {
	var q command.Queue
	rest, ok := byName(command.QueueOptions()).take(&q, words, ignored)
	if !ok || len(rest) > 0 || command.Local(q.Format) {
		return false
	}
	return c.listed("squeue", "SQUEUE_", ofQueue(&q))
}

// ofQueue returns the request of squeue.
func ofQueue(q *command.Queue) []byte {
	var o object
	o.whole(func(o *object) {
		o.choice(&q.Choice)
		o.text("Format", q.Format)
		o.flag("Each", q.Each)
		o.flag("Long", q.Long)
		o.flag("NoHeader", q.NoHeader)
	})
	return o.Bytes()
}

// scancel cancels jobs, and reports whether that succeeded.
func (c *call) scancel(words []string) bool {
	chosen, ok := chosenIn(words)
	return ok && c.listed("scancel", "SCANCEL_", ofChoice(&chosen))
}

// ofChoice returns the request of scancel.
func ofChoice(c *command.Choice) []byte {
	var o object
	o.whole(func(o *object) { o.choice(c) })
	return o.Bytes()
}

// chosenIn returns the jobs that a command line of scancel selects. It reports false if synapse-cli must judge.
func chosenIn(words []string) (chosen command.Choice, ok bool) {
	rest, ok := byName(command.CancelOptions()).take(&chosen, words, ignored)
	if !ok || len(rest) == 0 && !chosen.Limited() {
		return chosen, false
	}
	for _, word := range rest {
		if word == "" || word[0] == '-' || strings.Contains(word, ".") { // an option, or a step
			return chosen, false
		}
	}
	chosen.JobList = strings.Join(rest, ",")
	return chosen, true
}

func ignored(string) {}

// listed sends the options of a command, and keeps the output. prefix is the start of the variables that change the
// command, which only synapse-cli reads.
func (c *call) listed(name, prefix string, body []byte) bool {
	for _, entry := range os.Environ() {
		if value := strings.IndexByte(entry, '='); strings.HasPrefix(entry, prefix) && value < len(entry)-1 {
			return false
		}
	}
	to, ok := c.settings()
	if !ok || !utf8.Valid(body) {
		return false
	}
	answer, _ := to.post(command.Prefix+name, body, command.MaxOutput)
	c.output = string(answer)
	return answer != nil
}

// choice writes the fields of a selection.
func (o *object) choice(c *command.Choice) {
	for _, field := range [][2]string{
		{"Users", c.Users}, {"Names", c.Names}, {"Partitions", c.Partitions}, {"Accounts", c.Accounts}, {"QOS", c.QOS},
		{"WCKeys", c.WCKeys}, {"StateList", c.StateList}, {"JobList", c.JobList}, {"NodeList", c.NodeList},
	} {
		o.text(field[0], field[1])
	}
	o.flag("Me", c.Me)
}
