package credential

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// This file owns connections through the Unix socket on the scheduler's host. The kernel reports the client's user, so
// the client presents no certificate.

// Beside returns the credentials of a client that dials the Unix socket on the scheduler's host.
func Beside(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), dial: knock, told: told}
}

// knock waits for the scheduler's answer.
func knock(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return nil, nil, err
		}
	}
	answer, err := ReadFrame(raw)
	switch {
	case err != nil:
		return nil, nil, err
	case bytes.Equal(answer, []byte{AnswerGood}):
		return raw, proof{private}, raw.SetDeadline(time.Time{})
	}
	return nil, nil, &Refused{fmt.Errorf("refused: %.500s", bytes.TrimLeft(answer, "\x01"))}
}
