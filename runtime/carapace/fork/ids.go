//go:build linux

package fork

// User namespaces: which of the machine's numbers are whose inside. Every way has its own to make one, because the
// kernel lets no process of several threads into one, and Go's have several.

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Span maps numbers of users or groups: N from Inside on are those from Outside on.
type Span struct{ Inside, Outside, N uint64 }

// Space is a user namespace, held open.
type Space struct {
	FD  int
	own Span // of users and groups, where a command has it
}

// NewSpace makes a user namespace with maps of users and of groups. The thread must be locked, and at home.
func NewSpace(uids, gids []Span) (*Space, error) {
	fd, err := makeSpace(uids, gids)
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return &Space{fd, uids[0]}, nil
}

// Close lets go of it. It lives on in the processes in it, and in the mounts that were made with it.
func (s *Space) Close() { unix.Close(s.FD) }

// mapOf is a map as the kernel reads it.
func mapOf(spans []Span) []byte {
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintln(&text, s.Inside, s.Outside, s.N)
	}
	return []byte(text.String())
}
