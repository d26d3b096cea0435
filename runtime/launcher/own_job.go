package launcher

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/shell"
)

// This file carries requests of a task about its own job, such as a requeue. The task's socket proves the identity of
// the task, so the task needs no token. The leader checks that the attempt is the current one.

// OwnRequest holds a request of a task about its job.
type OwnRequest struct {
	Job     string
	Attempt *messages.Token
	Rank    int32
	Verb    string // one of shell.Verbs
}

// ownPatience limits the time in which a scheduler must answer. It covers a change of the leader.
const ownPatience = 2 * time.Minute

// codeRefused is the exit code of a request that was refused or not answered.
const codeRefused = 1

// ownJob makes the request, and sends the lines about the job. It returns the result for the caller.
func (t *task) ownJob(ctx context.Context, conn *net.UnixConn, verb string) shell.Result {
	failed := func(text string) shell.Result { return shell.Result{Code: codeRefused, Text: text} }
	switch {
	case !t.isOurs(conn):
		return failed(errOthers.Error())
	case !slices.Contains(shell.Verbs, verb):
		return failed("the node's agent does not know the request; update synapse-node on the node")
	case t.l.o.OwnJob == nil:
		return failed("the node's agent cannot pass on requests of tasks")
	}
	ctx, cancel := context.WithTimeout(ctx, ownPatience)
	defer cancel()
	lines, err := t.l.o.OwnJob(ctx, OwnRequest{
		Job: t.Job, Attempt: messages.ToToken(t.Key.Token), Rank: int32(t.Key.Rank), Verb: verb,
	})
	if err != nil {
		return failed(err.Error())
	}
	text := strings.Join(lines, "")
	if err := shell.Send(conn, shell.Stdout, []byte(text[:min(len(text), shell.PieceBytes)])); err != nil {
		return failed(err.Error())
	}
	return shell.Result{}
}
