package rollout

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// This file reaches a node over ssh. Each step is one call of the user's ssh, which sends a script and its files as
// an archive on standard input. The remote command is one line that every login shell parses in the same way.

var (
	//go:embed look.sh
	lookScript []byte
	//go:embed apply.sh
	applyScript []byte
)

// unpack runs the script of the archive as root. It ignores SIGHUP, so that a lost connection does not leave a
// package partly installed.
const unpack = `exec sh -c 'set -e; trap "" HUP; umask 077; d=$(mktemp -d /var/tmp/synapse-deploy-XXXXXX); ` +
	`trap "rm -rf $d" EXIT; tar -xf - -C "$d"; r=; test "$(id -u)" = 0 || r="sudo -n"; $r sh "$d/run" "$d" %s'`

// Reach holds how nodes are reached.
type Reach struct {
	// Ssh is the program and its arguments before the destination.
	Ssh []string
	// Invite creates the join token of a node with this name.
	Invite func(name string) (string, error)
	// Within limits how long an agent may take to join.
	Within time.Duration
	// Apart starts a program outside the terminal's process group, so that Ctrl-C does not end it.
	Apart func(*exec.Cmd)
}

// NewReach parses the ssh command that the user would type before a destination.
func NewReach(ssh string) (*Reach, error) {
	words := strings.Fields(ssh)
	if len(words) == 0 {
		return nil, errors.New("is empty; omit it, or write the command before the destination, such as \"ssh -i key\"")
	}
	if base := strings.TrimSuffix(filepath.Base(words[0]), ".exe"); base == "ssh" {
		// Several ssh processes run at once, so none may prompt. Options of the user come first, because
		// ssh uses the first value of an option.
		words = append(words, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
	}
	return &Reach{Ssh: words, Apart: func(*exec.Cmd) {}}, nil
}

// maxSaid limits the output that is read from a node.
const maxSaid = 1 << 20

// tail keeps the end of its input.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if over := t.Len() + len(p) - maxSaid; over > 0 {
		t.Next(min(over, t.Len()))
	}
	t.Buffer.Write(p[max(0, len(p)-maxSaid):])
	return len(p), nil
}

// file is a file that is sent to a node.
type file struct {
	name string
	body []byte
}

// do runs a script on a node, and returns its output.
func (r *Reach) do(ctx context.Context, h Host, script []byte, argument string, files ...file) (string, error) {
	line := fmt.Sprintf(unpack, argument)
	run := exec.CommandContext(ctx, r.Ssh[0], append(slices.Clone(r.Ssh[1:]), h.Ssh, line)...)
	r.Apart(run)
	var out, trouble tail
	run.Stdout, run.Stderr = &out, &trouble
	in, err := run.StdinPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		return "", err
	}
	packed := pack(in, append([]file{{"run", script}}, files...))
	err = run.Wait()
	switch said := lastLines(trouble.String(), 4); {
	case err != nil && said != "":
		return "", fmt.Errorf("%s: %s", filepath.Base(r.Ssh[0]), said)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", filepath.Base(r.Ssh[0]), h.Ssh, err)
	}
	return out.String(), packed
}

// pack writes the archive.
func pack(to io.WriteCloser, files []file) error {
	archive := tar.NewWriter(to)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.body))})
		if err == nil {
			_, err = archive.Write(f.body)
		}
		if err != nil {
			return errors.Join(err, to.Close())
		}
	}
	return errors.Join(archive.Close(), to.Close())
}

// lastLines returns the last lines of a text, joined into one.
func lastLines(text string, most int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-most):]
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}

// Look returns the state of a node.
func (r *Reach) Look(ctx context.Context, h Host) (Found, error) {
	said, err := r.do(ctx, h, lookScript, quoted(h.KeyFolder()))
	if err != nil {
		return Found{}, err
	}
	return parseFound(said)
}

// quoted escapes a word for the single quotes in unpack.
func quoted(word string) string {
	return `"` + strings.NewReplacer(`"`, "", "'", "", "$", "", "`", "", `\`, "").Replace(word) + `"`
}

// parseFound parses the output of look.sh: one line per property, and then the settings file.
func parseFound(said string) (f Found, err error) {
	for {
		line, rest, more := strings.Cut(said, "\n")
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "arch":
			f.Arch = value
		case "packages":
			f.Kind = value
		case "version":
			f.Version = value
		case "systemd":
			f.Systemd = true
		case "active":
			f.Active = true
		case "enabled":
			f.Enabled = true
		case "keyed":
			f.Keyed = true
		case "settings":
			f.Settings = []byte(rest)
			return f, nil
		}
		if !more {
			return f, errors.New("node inventory is incomplete")
		}
		said = rest
	}
}

// Apply does the work on a node, waits until the agent has joined the scheduler, and returns the agent's version.
func (r *Reach) Apply(ctx context.Context, h Host, w Work) (string, error) {
	var files []file
	if w.Package != nil {
		files = append(files, file{"synapse." + w.Package.Kind, w.Package.body})
	}
	if w.Settings != nil {
		files = append(files, file{"node.yaml", w.Settings})
	}
	if w.Invite {
		token, err := r.Invite(h.Name)
		if err != nil {
			return "", err
		}
		files = append(files, file{"token", []byte(token + "\n")})
	}
	said, err := r.do(ctx, h, applyScript, fmt.Sprint(int(r.Within.Seconds())), files...)
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(lastLines(said, 1), "version ")
	if !ok {
		return "", errors.New("node inventory is incomplete")
	}
	return version, nil
}
