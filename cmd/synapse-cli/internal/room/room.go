// Package room has how a job holds its room for a command that runs elsewhere: its tasks run a keeper, and a lifeline
// is an exec session that the keeper ends with.
package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// Keeper ends with the code that it reads from a pipe in its scratch directory, or with 129 (as SIGHUP has it) where
// rank 0's last writer has gone. Until a lifeline is there the writer is a timer, for a minute; told to "return", it
// has a timer for each lifeline that breaks, so that another may follow. Told to "stay" it has none, and waits for as
// long as the job may.
const Keeper = `p=${SYNAPSE_HOSTFILE%/*}/run
mkfifo "$p" 2>/dev/null
while :; do
  if [ "$SYNAPSE_RANK" = 0 ] && [ "$1" != stay ]; then
    sleep 60 >"$p" &
    echo $! >"$p.timer"
  fi
  read -r code <"$p"
  [ "$1" = return ] && [ -z "$code" ] && [ ! -e "$p.timer" ] || exit "${code:-129}"
done`

// lifeline is the writer in the timer's place. It says that it is, hands on the code that it reads, and is killed when
// its connection breaks.
const lifeline = `p=${SYNAPSE_HOSTFILE%/*}/run
mkfifo "$p" 2>/dev/null
if [ "$SYNAPSE_RANK" = 0 ]; then
  until [ -s "$p.timer" ]; do sleep 0.01; done
fi
exec 3>"$p"
if [ "$SYNAPSE_RANK" = 0 ]; then
  kill "$(cat "$p.timer")"
  rm "$p.timer"
fi
echo held
read -r code && echo "$code" >&3`

// Patience bounds the wait for the job's end behind its command's.
const Patience = time.Minute

// LetGo hands a keeper its code.
func LetGo(line *client.ExecSession, code int) {
	_ = line.Send(&api.ExecIn{Stdin: []byte(strconv.Itoa(code) + "\n"), StdinEnds: true})
}

// Held is a rank's lifeline, once it holds its keeper.
func Held(ctx context.Context, c *client.Client, id string, rank int) (*client.ExecSession, error) {
	line, err := c.Execute(ctx, &api.ExecIn{Job: id, Rank: int32(rank), Command: []string{"/bin/sh", "-c", lifeline}})
	for err == nil {
		var out *api.ExecOut
		if out, err = line.Receive(); err == nil && len(out.GetStdout()) > 0 {
			return line, nil
		}
		if end := out.GetEnd(); end != nil {
			err = &exit.Failure{Code: exit.NotRun, Text: fmt.Sprintf("rank %d: task not started: ", rank) +
				cmp.Or(end.GetText(),
					"/bin/sh failed")}
		}
	}
	return nil, err
}

// NotRun is the error of a process that was not run. Its code is not that of any process.
func NotRun(err error) error {
	text, hint := exit.Words(err)
	code := exit.Code(err)
	if code == exit.Failed {
		code = exit.NotRun
	}
	return &exit.Failure{Code: code, Text: text, Hint: hint}
}

// Heard is where goes what a process writes.
type Heard struct {
	Out, Errs io.Writer
	Ends      func() // when nothing more comes of its stdout, before its end; nil: it does not matter
}

// Hear writes what the process writes, until it has ended.
func Hear(run *client.ExecSession, to *Heard) error {
	for {
		out, err := run.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = &client.Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "scheduler not reachable"}
			}
			text, hint := exit.Words(err)
			return &exit.Failure{Code: exit.Unavailable, Hint: hint,
				Text: "connection lost, process is being ended: " + text}
		}
		if _, err := to.Out.Write(out.GetStdout()); err != nil {
			return err
		}
		if _, err := to.Errs.Write(out.GetStderr()); err != nil {
			return err
		}
		if out.GetStdoutEnds() && to.Ends != nil {
			to.Ends()
		}
		if end := out.GetEnd(); end != nil {
			if end.GetText() == "" {
				return exit.With(int(end.GetCode()))
			}
			return &exit.Failure{Code: int(end.GetCode()), Text: end.GetText()}
		}
	}
}
