package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// This file owns an identity's folder on disk: the trusted roots, and the owner's key and chain. Only the owner can
// read the key. Each version of a file is written completely or not at all.

const (
	rootsFile    = "ca.pem"
	chainFile    = "cert.pem"
	keyFile      = "key.pem"
	denylistFile = "denylist"

	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"

	folderMode = 0o700
)

// Folder holds the files of one party of a cluster.
type Folder struct {
	Dir   string
	Roots []*x509.Certificate
	Pair  *Pair
}

// Identity returns the owner of the folder.
func (f *Folder) Identity() (Identity, error) { return f.Pair.Identity() }

// Trust returns the authorities that the folder's owner trusts.
func (f *Folder) Trust() (*Trust, error) {
	own, err := f.Identity()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Dir, err)
	}
	return &Trust{Cluster: own.Cluster, Roots: f.Roots}, nil
}

// Denylist reads the folder's denylist.
func (f *Folder) Denylist() (*Denylist, error) {
	return OpenDenylist(filepath.Join(f.Dir, denylistFile))
}

// Certify generates a key and signs its certificate with this folder's key. A root signs the authority of a scheduler,
// and an authority signs any other role. The returned folder is not on disk yet.
func (f *Folder) Certify(role Role, name string, now time.Time) (*Folder, error) {
	made := &Folder{Roots: f.Roots}
	own, err := f.Identity()
	switch {
	case err == nil:
		made.Pair, err = f.Pair.IssuePair(Identity{own.Cluster, role, name}, now)
	case !f.isRoot():
	case role == RoleScheduler:
		made.Pair, err = f.Pair.NewAuthority(Identity{f.Pair.Leaf().PermittedURIDomains[0], RoleAuthority, name}, now)
	default:
		err = fmt.Errorf("the root signs schedulers only: use the folder of a scheduler for role %s", role)
	}
	return made, err
}

// isRoot reports whether the folder belongs to a root.
func (f *Folder) isRoot() bool {
	leaf := f.Pair.Leaf()
	return leaf.IsCA && leaf.CheckSignatureFrom(leaf) == nil && len(leaf.PermittedURIDomains) == 1
}

// Create writes a folder that does not exist yet or is empty. It overwrites nothing, because a file may be the only
// copy of a key.
func (f *Folder) Create() error {
	if entries, err := os.ReadDir(f.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: keys are never overwritten", f.Dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.Dir, folderMode); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(f.Pair.Key)
	if err != nil {
		return err
	}
	key := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	if err := replace(filepath.Join(f.Dir, keyFile), key); err != nil {
		return err
	}
	if err := replace(filepath.Join(f.Dir, rootsFile), encode(f.Roots)); err != nil {
		return err
	}
	return f.SaveChain()
}

// SaveChain replaces the folder's chain, as a renewal does. The key stays the same.
func (f *Folder) SaveChain() error {
	return replace(filepath.Join(f.Dir, chainFile), encode(f.Pair.Chain))
}

// OpenFolder reads a folder. It refuses a folder whose key others can read or whose parts do not match.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, Pair: &Pair{}}
	var err error
	if f.Roots, err = readCertificates(filepath.Join(dir, rootsFile)); err != nil {
		return nil, err
	}
	if f.Pair.Chain, err = readCertificates(filepath.Join(dir, chainFile)); err != nil {
		return nil, err
	}
	if f.Pair.Key, err = readKey(filepath.Join(dir, keyFile)); err != nil {
		return nil, err
	}
	if !f.Pair.Belongs() {
		return nil, fmt.Errorf("%s: key does not match the certificate", dir)
	}
	return f, nil
}

// ReadPool reads the certificates of an outside party, such as a proxy or an issuer of tokens.
func ReadPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", path)
	}
	return pool, nil
}

// ReadRoot reads a cluster's root certificate. It returns the cluster's name and the certificate's digest. The
// certificate is not secret, but it decides which servers its reader trusts.
func ReadRoot(path string) (cluster string, root Digest, err error) {
	all, err := readCertificates(path)
	if err != nil {
		return "", root, err
	}
	if len(all) != 1 || !all[0].IsCA || len(all[0].PermittedURIDomains) != 1 {
		return "", root, fmt.Errorf("%s: must contain only the cluster's root certificate, as ca.pem does", path)
	}
	cluster = all[0].PermittedURIDomains[0]
	return cluster, sha256.Sum256(all[0].Raw), CheckCluster(cluster)
}

// othersMayRead reports whether a file's mode allows access by its group or others. On Windows, access lists replace
// modes, and Go returns 0666 for every file.
func othersMayRead(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// Exposed returns a warning if others can read a token file. It returns the empty string otherwise, and if the path is
// not a regular file.
func Exposed(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || !othersMayRead(info) {
		return ""
	}
	return fmt.Sprintf("token file %s can be read by others (mode %04o): run chmod 0600 %s, and use --out for tokens",
		path, info.Mode().Perm(), path)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if othersMayRead(info) {
		return nil, fmt.Errorf("%s: key can be read by others (mode %04o): run chmod 0600", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("%s: contains no private key", path)
	}
	read, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := read.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: key is not ECDSA", path)
	}
	return key, nil
}

// ReadPrivate reads a file with a secret. It refuses a file that others can read or that is too long.
func ReadPrivate(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && othersMayRead(info):
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run chmod 0600 %s", path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

func readCertificates(path string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: contains no certificate", path)
	}
	return all, nil
}

func encode(chain []*x509.Certificate) (text []byte) {
	for _, c := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return text
}
