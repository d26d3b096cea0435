package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/runtime/shell"
)

// This file implements --ack: a task acknowledges that it has saved a checkpoint for the open request.

// acknowledge sends the step with the number of the request in the task's notice.
func acknowledge(args []string) (int, error) {
	if len(args) != 1 {
		return codeUsage, errors.New("--ack takes the step of the checkpoint, such as --ack 1200")
	}
	step, err := strconv.ParseUint(args[0], 10, 63)
	if err != nil {
		return codeUsage, fmt.Errorf("--ack: %q is not a step: use a whole number from 0", args[0])
	}
	request, err := openRequest(os.Getenv("SYNAPSE_NOTICE"))
	if err != nil {
		return codeFailed, err
	}
	for range ownTries {
		var answer string
		if answer, err = sendAck(request, step); err != nil {
			return codeFailed, err
		}
		if answer == shell.Acked {
			return 0, nil
		}
		if text, refused := strings.CutPrefix(answer, shell.Refused); refused {
			return codeFailed, errors.New(strings.TrimSpace(text))
		}
	}
	return codeFailed, errSilent
}

// openRequest returns the number of the request in a notice.
func openRequest(notice string) (string, error) {
	if notice == "" {
		return "", errors.New("SYNAPSE_NOTICE is not set: this process is not in a task of a job with `checkpoint: {...}`")
	}
	text, err := os.ReadFile(notice)
	if err != nil {
		return "", fmt.Errorf("no request to save is open: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if request, found := strings.CutPrefix(strings.TrimSpace(line), "request="); found {
			return request, nil
		}
	}
	return "", fmt.Errorf("no request to save is open: %s has no request", notice)
}

// sendAck sends the line over a new connection, and returns the answer. The answer is empty if the connection was lost.
func sendAck(request string, step uint64) (string, error) {
	conn, err := connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %s %d\n", shell.Ack, request, step); err != nil {
		return "", nil
	}
	text, _ := io.ReadAll(io.LimitReader(conn, shell.PieceBytes))
	return strings.TrimSpace(string(text)), nil
}
