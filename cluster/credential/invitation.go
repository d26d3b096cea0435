package credential

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
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

// This file owns invitations: what a machine shows that has no certificate yet. People call the text a join token. Of
// the secret in it only a hash is kept, in the folder of the scheduler's authority: a file for each use, which the use
// removes. So a use is taken once, whoever else asks in the same moment, and after a crash it is taken or it is not.

const (
	invitationsFolder = "invitations"
	machinesFolder    = "machines"
	InvitationPrefix  = "synapse1"
	secretBytes       = 32
	// MaxUses bounds the machines that one invitation lets in.
	MaxUses = 1024
)

// Invitation says what its bearer may become.
type Invitation struct {
	Name  string    `json:"name,omitempty"` // of the machine; empty: the machine says it
	Until time.Time `json:"until"`
	// Bounds are what the machine may claim of itself.
	Bounds identity.Bounds `json:"bounds,omitempty"`
}

// ticket is the text of an invitation, read.
type ticket struct {
	cluster string
	root    [sha256.Size]byte // digest of the root's certificate: by it the bearer knows the scheduler
	secret  []byte
	Now     func() time.Time // nil: the machine's clock
}

var (
	errInvitation = errors.New("the join token is not known here: it is spent, over, or of another scheduler")
	errOver       = errors.New("the join token is over")
	errName       = errors.New("the join token is for another machine")
	errTaken      = errors.New("another machine has joined under this name: a token with --node-name replaces it")
	errTicket     = errors.New("the join token cannot be read: it is one word, as `synapse-cli token create` prints it")
)

// Invite keeps an invitation for so many uses, and answers the text for its bearer. The text is in no file.
func Invite(by *identity.Folder, i Invitation, uses int) (string, error) {
	own, err := by.Identity()
	switch {
	case err != nil || own.Role != identity.RoleAuthority:
		return "", fmt.Errorf("%s is not the folder of a scheduler", by.Dir)
	case uses < 1 || uses > MaxUses:
		return "", fmt.Errorf("%d uses: must be 1 to %d", uses, MaxUses)
	case i.Bounds.Check() != nil:
		return "", i.Bounds.Check()
	case i.Name != "" && uses > 1:
		return "", errors.New("a token for one machine has one use")
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

// readTicket reads the text of an invitation.
func readTicket(text string) (ticket, error) {
	if strings.HasPrefix(strings.TrimSpace(text), PassPrefix+".") {
		return ticket{}, errors.New("this is a person's token, and no machine joins with it")
	}
	return readText(text, InvitationPrefix)
}

// readText reads the text of a token of one kind.
func readText(text, prefix string) (ticket, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != prefix || identity.CheckCluster(parts[1]) != nil {
		return ticket{}, errTicket
	}
	root, err := hex.DecodeString(parts[2])
	secret, failed := hex.DecodeString(parts[3])
	if err != nil || failed != nil || len(root) != sha256.Size || len(secret) != secretBytes {
		return ticket{}, errTicket
	}
	return ticket{cluster: parts[1], root: [sha256.Size]byte(root), secret: secret}, nil
}

// finds is the root in what a scheduler showed; nil: it is none of this cluster.
func (t ticket) finds(shown []*x509.Certificate) *x509.Certificate {
	for _, c := range shown {
		if sha256.Sum256(c.Raw) == t.root {
			return c
		}
	}
	return nil
}

// Spend takes one use of an invitation for a machine of this key, and answers the machine's name and what it may claim.
// What it refuses spends nothing, but for an invitation that is over, which is removed.
func Spend(by *identity.Folder, q Joining, key identity.Digest, now time.Time) (
	name string, bounds identity.Bounds, err error,
) {
	files, err := filepath.Glob(filepath.Join(by.Dir, invitationsFolder, hashOf(q.Secret)+".*"))
	if err != nil || len(files) == 0 {
		return "", nil, errors.Join(errInvitation, err)
	}
	text, err := os.ReadFile(files[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, errInvitation // another one took it this moment
	}
	var i Invitation
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("the join token's record: %w", err)
	case now.After(i.Until):
		return "", nil, errors.Join(append([]error{errOver}, removeAll(files)...)...)
	case i.Name != "" && q.Name != "" && q.Name != i.Name:
		return "", nil, fmt.Errorf("%w: %s", errName, i.Name)
	}
	name = cmp.Or(i.Name, q.Name, q.Otherwise)
	if name == "" {
		return "", nil, errors.New("the machine says no name, and its token has none")
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

// Bind says that a name is that of a key from now on, as a join does: for a machine that is certified by hand.
func Bind(by *identity.Folder, name string, key identity.Digest) error {
	return by.Write(filepath.Join(machinesFolder, name), []byte(hex.EncodeToString(key[:])+"\n"))
}

// Taken reports whether a machine of another key has joined under a name. What cannot be read is taken.
func Taken(by *identity.Folder, name string, key identity.Digest) bool {
	text, err := os.ReadFile(filepath.Join(by.Dir, machinesFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || strings.TrimSpace(string(text)) != hex.EncodeToString(key[:])
}
