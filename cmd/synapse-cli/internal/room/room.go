// Package room lets a job hold its resources for a command that runs elsewhere. The job's tasks run a keeper
// script. A lifeline is an exec session on which the keeper depends.
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

// Keeper ends with the code that it reads from a pipe in its scratch folder. If the last writer of the pipe is
// gone, it ends with 129, like after SIGHUP. On rank 0, a timer of one minute is the first writer, until a lifeline
// takes over. With "return", the keeper starts a new timer for each lost lifeline, so that another one can follow.
// With "stay", there is no timer, and the keeper waits as long as the job may run.
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

// lifeline is the writer that replaces the timer. It reports that it holds the pipe, and writes the code that it
// reads. It is killed when its connection breaks.
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

// Patience limits the wait for the end of the job after the end of its command.
const Patience = time.Minute

// LetGo sends the code to a keeper.
func LetGo(line *client.ExecSession, code int) {
	_ = line.Send(&api.ExecIn{Stdin: []byte(strconv.Itoa(code) + "\n"), StdinEnds: true})
}

// Held returns the lifeline of a rank after it has taken over the keeper's pipe.
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

// NotRun returns the error of a process that did not start. Its exit code differs from that of any process.
func NotRun(err error) error {
	text, hint := exit.Words(err)
	code := exit.Code(err)
	if code == exit.Failed {
		code = exit.NotRun
	}
	return &exit.Failure{Code: code, Text: text, Hint: hint}
}

// Heard holds the destinations of a process's output.
type Heard struct {
	Out, Errs io.Writer
	Ends      func() // called when stdout ends before the process; may be nil
}

// Hear copies the output of the process until the process has ended.
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
