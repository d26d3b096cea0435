package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/environment"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/progress"
)

// This file offers the Kubeflow Trainer progress protocol to tasks on the node's network. Each task gets a token in a
// file of its scratch directory that only its user can read. The launcher keeps the token's hash on disk, so that the
// next agent recognizes the token. The next agent listens on the same port, because running tasks keep the address.

const (
	tokenName    = "synapse-progress-token"
	authorityPEM = "synapse-progress-ca.pem"
	hashFile     = "progress.hash"
	portFile     = "progress.port"
)

// unusedAuthority is a certificate whose key nobody has. The protocol requires a certificate file, but the connection
// over loopback does not use TLS.
const unusedAuthority = `-----BEGIN CERTIFICATE-----
MIIBtzCCAV2gAwIBAgIUKUJN2sRU/qHgXD1+cmLWfyENd3kwCgYIKoZIzj0EAwIw
MDEuMCwGA1UEAwwldW51c2VkLCB0aGUgY29ubmVjdGlvbiBpcyBvbiBsb29wYmFj
azAgFw0yNjExMjkxOTIxMTBaGA8yMTI2MTEwNTE5MjExMFowMDEuMCwGA1UEAwwl
dW51c2VkLCB0aGUgY29ubmVjdGlvbiBpcyBvbiBsb29wYmFjazBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABNykNrcF6JxKoYXpVrtyRvZWMDkWz+9uk7tSHETo9aqp
fgzXNUZWg8hTL/2Dh15U+iqRBfJZpilw7rBKqMxQZKKjUzBRMB0GA1UdDgQWBBRS
m4LLm8+wGH92nKAsRrrk9U1jqDAfBgNVHSMEGDAWgBRSm4LLm8+wGH92nKAsRrrk
9U1jqDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCyzvjncT6+
Z2KlKF43xI7q4oHFwZu0TeLMqNerOosoxwIgdMFoz2XDOD+Myr9LYFICpAK16EkO
zWSSbe6yHGbm5ak=
-----END CERTIFICATE-----
`

// listenForProgress opens the endpoint. If that fails, tasks still run, but are not offered the protocol.
func (l *Launcher) listenForProgress() {
	if !l.o.Kubeflow {
		return
	}
	path := filepath.Join(l.o.Dir, portFile)
	text, _ := os.ReadFile(path)
	port, _ := strconv.Atoi(string(text))
	r, err := progress.Listen(port)
	if err != nil && port != 0 {
		l.o.Log.Info("Running tasks can no longer send their progress: %v", err)
		r, err = progress.Listen(0)
	}
	if err != nil {
		l.o.Log.Info("Tasks get no Kubeflow progress endpoint: %v", err)
		return
	}
	if err := file.Replace(path, []byte(strconv.Itoa(r.Port()))); err != nil {
		l.o.Log.Info("The port of the Kubeflow progress endpoint cannot be saved: %v", err)
	}
	l.receiver = r
}

// offerKubeflow makes a token for a task that is about to start, and returns its variables. It returns nil if the task
// is not offered the protocol. A token that cannot be written, for example on a full disk, does not fail the task.
func (t *task) offerKubeflow(scratch string) *environment.Kubeflow {
	if t.l.receiver == nil || t.Spec.GetProgress().GetKubeflowOff() ||
		len(messages.NetworkLabels(t.Spec.GetNetwork())) > 0 {
		return nil
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	token := hex.EncodeToString(random[:])
	hash := progress.HashToken(token)
	err := errors.Join(
		file.Replace(filepath.Join(t.home, hashFile), hash[:]),
		writeNew(filepath.Join(t.Scratch, authorityPEM), []byte(unusedAuthority), 0o644),
		t.writeOwn(tokenName, []byte(token)),
	)
	if err != nil {
		t.l.o.Log.Info("Task %v gets no Kubeflow progress endpoint: its token cannot be written: %v", t.Key, err)
		return nil
	}
	return &environment.Kubeflow{
		URL: t.l.receiver.URL(), Token: filepath.Join(scratch, tokenName), Authority: filepath.Join(scratch, authorityPEM),
	}
}

// writeOwn writes a file in the scratch directory that only the owner of the directory, the task's user, may read.
func (t *task) writeOwn(name string, text []byte) error {
	var owner unix.Stat_t
	if err := unix.Lstat(t.Scratch, &owner); err != nil {
		return err
	}
	path := filepath.Join(t.Scratch, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && int(owner.Uid) != os.Getuid() {
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	return errors.Join(err, f.Close())
}

// hearKubeflow accepts requests of a running task. The caller holds the lock of the task's progress.
func (t *task) hearKubeflow() {
	if t.l.receiver == nil || t.progress.hash != nil {
		return
	}
	text, err := os.ReadFile(filepath.Join(t.home, hashFile))
	var hash progress.TokenHash
	if err != nil || len(text) != len(hash) {
		return
	}
	copy(hash[:], text)
	t.progress.hash = &hash
	t.l.receiver.Add(hash, t.takePosted)
}

// deafToKubeflow stops accepting requests of a task. The caller holds the lock of the task's progress.
func (t *task) deafToKubeflow() {
	if t.progress.hash != nil {
		t.l.receiver.Remove(*t.progress.hash)
		t.progress.hash = nil
	}
}

// takePosted handles the report of a request. It sends the progress at once if it last did so at least one second ago;
// otherwise the next look sends it.
func (t *task) takePosted(r progress.Report) {
	p := &t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.model.Observe(clock.BootNs(), r)
	if now := time.Now(); now.Sub(p.posted) >= progressEvery {
		p.posted = now
		t.sendProgress()
	}
}

// kubeflowFiles returns the files in a scratch directory that are not needed after the end of the task.
func kubeflowFiles(scratch string) []string {
	return []string{filepath.Join(scratch, tokenName), filepath.Join(scratch, authorityPEM)}
}
