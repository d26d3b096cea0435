package credential

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns join tokens, which a node without a certificate presents. The scheduler's folder contains only a hash
// of the token's secret, in one file per use. A join removes the file. Therefore each use counts exactly once, also for
// simultaneous requests and after a crash.

const (
	invitationsFolder = "invitations"
	machinesFolder    = "machines"
	InvitationPrefix  = "synapse1"
	secretBytes       = identity.SecretBytes
	// MaxUses limits the nodes that one join token admits.
	MaxUses = 1024
)

// Invitation holds the rights of a join token.
type Invitation struct {
	Name  string    `json:"name,omitempty"` // of the machine; empty: the machine says it
	Until time.Time `json:"until"`
	// Bounds limits the claims of the node.
	Bounds identity.Bounds `json:"bounds,omitempty"`
}

// ticket is the parsed text of a token.
type ticket struct {
	cluster string
	root    [sha256.Size]byte // digest of the root certificate, by which the client verifies the scheduler
	secret  []byte
	Now     func() time.Time // nil: the host's clock
}

var (
	errInvitation = errors.New("join token is unknown to this scheduler: it is used up, expired, or another scheduler's")
	errOver       = errors.New("join token has expired")
	errName       = errors.New("join token is for another node name")
	errTaken      = errors.New("node name is used by another node: create a token with --node-name to replace that node")
	errTicket     = errors.New("join token is malformed: use the word that `synapse-cli token create` prints")
)

// Invite stores a join token with a number of uses, and returns its text. The text is stored in no file.
func Invite(by *identity.Folder, i Invitation, uses int) (string, error) {
	own, err := by.Identity()
	switch {
	case err != nil || own.Role != identity.RoleAuthority:
		return "", fmt.Errorf("%s is not the folder of a scheduler", by.Dir)
	case uses < 1 || uses > MaxUses:
		return "", fmt.Errorf("number of uses is %d: must be 1 to %d", uses, MaxUses)
	case i.Bounds.Check() != nil:
		return "", i.Bounds.Check()
	case i.Name != "" && uses > 1:
		return "", errors.New("a token with --node-name allows one use")
	case i.Name != "":
		if err := (identity.Identity{Cluster: own.Cluster, Role: identity.RoleNode, Name: i.Name}).Check(); err != nil {
			return "", err
		}
	}
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", err
	}
	text, err := json.Marshal(i)
	if err != nil {
		return "", err
	}
	for n := range uses {
		name := fmt.Sprintf("%s.%d", hashOf(secret), n)
		if err := by.Write(filepath.Join(invitationsFolder, name), text); err != nil {
			return "", err
		}
	}
	root := sha256.Sum256(by.Roots[0].Raw)
	text = fmt.Appendf(nil, "%s.%s.%x.%x", InvitationPrefix, own.Cluster, root, secret)
	return string(text), nil
}

func hashOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

// readTicket parses the text of a join token.
func readTicket(text string) (ticket, error) {
	if strings.HasPrefix(strings.TrimSpace(text), PassPrefix+".") {
		return ticket{}, errors.New("token is a user's token: nodes need a join token")
	}
	return readText(text, InvitationPrefix)
}

// readText parses the text of a token of one kind.
func readText(text, prefix string) (ticket, error) {
	cluster, root, secret, ok := identity.SplitToken(text, prefix)
	if !ok {
		return ticket{}, errTicket
	}
	return ticket{cluster: cluster, root: root, secret: secret}, nil
}

// Spend consumes one use of a join token for a node with this key. It returns the node's name and its allowed claims. A
// refused request consumes no use. An expired token is removed.
func Spend(by *identity.Folder, q Joining, key identity.Digest, now time.Time) (
	name string, bounds identity.Bounds, err error,
) {
	files, err := filepath.Glob(filepath.Join(by.Dir, invitationsFolder, hashOf(q.Secret)+".*"))
	if err != nil || len(files) == 0 {
		return "", nil, errors.Join(errInvitation, err)
	}
	text, err := os.ReadFile(files[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, errInvitation // a simultaneous request took the last use
	}
	var i Invitation
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("record of the join token: %w", err)
	case now.After(i.Until):
		return "", nil, errors.Join(append([]error{errOver}, removeAll(files)...)...)
	case i.Name != "" && q.Name != "" && q.Name != i.Name:
		return "", nil, fmt.Errorf("%w: %s", errName, i.Name)
	}
	name = cmp.Or(i.Name, q.Name, q.Otherwise)
	if name == "" {
		return "", nil, errors.New("node name is missing: set --id, or create the token with --node-name")
	}
	if i.Name == "" && Taken(by, name, key) {
		return "", nil, fmt.Errorf("%w (%.128q)", errTaken, name)
	}
	for _, file := range files {
		err := os.Remove(file)
		if err == nil {
			return name, i.bounds(q.Machine), Bind(by, name, key)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
	}
	return "", nil, errInvitation
}

// bounds returns the bounds of the invitation, and the id of the machine that takes it, if it says one.
func (i Invitation) bounds(machine string) identity.Bounds {
	b := identity.Bounds{}
	maps.Copy(b, i.Bounds)
	if machine != "" {
		b[identity.BoundMachine] = machine
	}
	return b
}

func removeAll(files []string) (failed []error) {
	for _, file := range files {
		failed = append(failed, os.Remove(file))
	}
	return failed
}

// Bind assigns a name to a key, as a join does. It serves nodes that get their certificate from an operator.
func Bind(by *identity.Folder, name string, key identity.Digest) error {
	return by.Write(filepath.Join(machinesFolder, name), []byte(hex.EncodeToString(key[:])+"\n"))
}

// Taken reports whether a node with another key has joined under a name. An unreadable record counts as taken.
func Taken(by *identity.Folder, name string, key identity.Digest) bool {
	text, err := os.ReadFile(filepath.Join(by.Dir, machinesFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || strings.TrimSpace(string(text)) != hex.EncodeToString(key[:])
}
