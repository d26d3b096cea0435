package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/runtime/shell"
)

// This file implements --job: a request of a task about its own job. It needs no token, because the task's socket
// proves the identity of the task.

// ownJob sends one of shell.Verbs, and prints the lines of the answer.
func ownJob(args []string) (int, error) {
	if len(args) != 1 || !slices.Contains(shell.Verbs, args[0]) {
		return codeUsage, fmt.Errorf("--job takes one of %s", strings.Join(shell.Verbs, ", "))
	}
	for range ownTries {
		code, err := ask(args[0])
		if code != codeLost {
			return code, err
		}
	}
	return codeFailed, errSilent
}

var errSilent = errors.New("the node agent does not answer; try again")

// ownTries limits the connections for one request. Each request has the same effect if it is repeated, and the agent
// may restart meanwhile.
const ownTries = 3

// ask sends the request over a new connection. The code is codeLost if no answer came.
func ask(verb string) (int, error) {
	conn, err := connect()
	if err != nil {
		return codeFailed, err
	}
	defer conn.Close()
	if err := shell.Send(conn, shell.Own, []byte(verb)); err != nil {
		return codeLost, err
	}
	return hear(conn)
}
