package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/internal/doctor"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/gpu"
)

// This file simulates faults of a host, one at a time. The examination must find exactly that fault.

// patient is a host without faults.
type patient struct {
	*examiner
	t    *testing.T
	dir  string
	by   *identity.Folder // folder of the cluster's authority
	date time.Duration    // offset of the scheduler's clock
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{t: t, dir: t.TempDir()}
	o := &options{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(flags)
	given := []string{"--data-dir", filepath.Join(p.dir, "node"), "--uids", "none", "--root-uids", "none"}
	if err := flags.Parse(given); err != nil {
		t.Fatal(err)
	}
	p.examiner = newExaminer(o)
	p.uid, p.files = 0, 1<<20
	p.room = func(string) (unix.Statfs_t, error) {
		return unix.Statfs_t{Blocks: 1000, Bavail: 500, Files: 1000, Ffree: 500}, nil
	}
	p.clock = func() (bool, error) { return true, nil }
	p.containers = func() []carapace.Finding { return []carapace.Finding{{Name: "memory limit", OK: true}} }
	p.gpus = func(context.Context) (*gpu.Inventory, error) { return &gpu.Inventory{}, nil }
	p.localPorts = filepath.Join(p.dir, "local-ports")
	p.write("local-ports", "32768\t60999\n", 0o644)
	p.certify(time.Now())
	o.join = []string{p.scheduler(true)}
	return p
}

func (p *patient) write(name, text string, mode os.FileMode) string {
	path := filepath.Join(p.dir, name)
	err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)) // independent of the umask
	if err != nil {
		p.t.Fatal(err)
	}
	return path
}

// certify creates a key and a certificate for the host, of a cluster that was created at that time.
func (p *patient) certify(made time.Time) {
	root, err := identity.NewRoot("c", made)
	if err != nil {
		p.t.Fatal(err)
	}
	by, err := (&identity.Folder{Roots: root.Chain, Pair: root}).Certify(identity.RoleScheduler, "s", made)
	if err != nil {
		p.t.Fatal(err)
	}
	mine, err := by.Certify(identity.RoleNode, "n1", made)
	if err == nil {
		mine.Dir = filepath.Join(p.dir, "tls"+strconv.FormatInt(made.UnixNano(), 10))
		err = mine.Create()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.o.tls, p.by = mine.Dir, by
}

// scheduler starts a fake scheduler, with or without TLS.
func (p *patient) scheduler(secure bool) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(p.date).UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "ok\n")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		pair, err := p.by.Pair.IssuePair(identity.Identity{Cluster: "c", Role: identity.RoleScheduler, Name: "s"}, time.Now())
		if err != nil {
			p.t.Fatal(err)
		}
		s.TLS = &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, ClientAuth: tls.RequestClientCert}
		s.StartTLS()
	} else {
		s.Start()
	}
	p.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// findings returns the findings that are not OK.
func (p *patient) findings() (all []doctor.Finding) {
	for _, f := range p.all(p.t.Context()) {
		if f.Verdict != doctor.Well {
			all = append(all, f)
		}
	}
	return all
}

// plain makes the host and its scheduler use plaintext.
func (p *patient) plain() { p.o.tls, p.o.join = "", []string{p.scheduler(false)} }

func free(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, l.Addr().String()
}

// faults are simulated one at a time. Each has a distinct finding.
var faults = []struct {
	name, check, words string
	plant              func(p *patient)
}{
	{"a setting that makes no sense", "settings", `--driver "docker"`, func(p *patient) { p.o.driver = "docker" }},
	{"no root", "user", "no containers", func(p *patient) { p.uid = 1000 }},
	{"the folder is a file", "folder", "is not a folder", func(p *patient) { p.o.dataDir = p.write("file", "", 0o644) }},
	{"the folder is in memory", "folder", "a reboot loses", func(p *patient) {
		p.room = func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Type: unix.TMPFS_MAGIC, Blocks: 10, Bavail: 9}, nil
		}
	}},
	{"a full disk", "disk", "2% free", func(p *patient) {
		p.room = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Blocks: 100, Bavail: 2}, nil }
	}},
	{"no inodes", "disk", "1% of the inodes free", func(p *patient) {
		p.room = func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Blocks: 100, Bavail: 50, Files: 100, Ffree: 1}, nil
		}
	}},
	{"few open files", "open files", "limit is 1024", func(p *patient) { p.files = 1024 }},
	{"no control groups", "memory limit", "no such controller", func(p *patient) {
		p.containers = func() []carapace.Finding {
			return []carapace.Finding{{Name: "memory limit", Reason: "no such controller"}}
		}
	}},
	{"a kernel without a feature", "seccomp", "not in this kernel", func(p *patient) {
		p.containers = func() []carapace.Finding {
			return []carapace.Finding{{Name: "seccomp", Reason: "not in this kernel"}}
		}
	}},
	{"a driver that does not fit its library", "gpus", "version mismatch", func(p *patient) {
		p.gpus = func(context.Context) (*gpu.Inventory, error) {
			return nil, errors.New("Failed to initialize NVML: Driver/library version mismatch")
		}
	}},
	{"a clock that nobody keeps", "time service", "no service synchronizes", func(p *patient) {
		p.clock = func() (bool, error) { return false, nil }
	}},
	{"a clock that is wrong", "clock", "from the scheduler's", func(p *patient) {
		p.plain()
		p.date = -4 * time.Minute
	}},
	{"ports that the kernel gives to others", "ports", "overlaps 32768-32768", func(p *patient) {
		p.o.ports = "32768-32768"
		_ = p.o.check()
		p.localPorts = p.write("taken", "32768 32768\n", 0o644)
	}},
	{"a port that is taken", "ports", "address already in use", func(p *patient) { _, p.o.metricsAt = free(p.t) }},
	{"no certificate", "certificate", "no such file", func(p *patient) { p.o.tls = filepath.Join(p.dir, "nowhere") }},
	{"a key that others read", "certificate", "key can be read by others", func(p *patient) {
		if err := os.Chmod(filepath.Join(p.o.tls, "key.pem"), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}},
	{"a certificate that is over", "certificate", "too long ago", func(p *patient) {
		p.certify(time.Now().AddDate(0, -3, 0))
		p.o.join = []string{p.scheduler(true)}
	}},
	{"no scheduler", "scheduler", "connection refused", func(p *patient) {
		l, at := free(p.t)
		l.Close()
		p.o.join = []string{at}
	}},
	{"a scheduler that speaks plaintext", "scheduler", "uses plaintext", func(p *patient) {
		p.o.join = []string{p.scheduler(false)}
	}},
	{"a scheduler that speaks TLS", "scheduler", "does not answer plain HTTP", func(p *patient) {
		p.plain()
		l, at := free(p.t)
		go func() { // like TLS, it closes connections of other protocols
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		p.o.join = []string{at}
	}},
	{"a policy that others may write", "settings", "--job-policy", func(p *patient) {
		p.o.policyFile = p.write("policy.yaml", "{}\n", 0o666)
	}},
	{"uids of somebody here", "settings", "--uids", func(p *patient) { p.o.uidRange = "60000-70000" }},
}

// TestDoctorFindsPlantedFaults checks that each fault is found with a fix, and that a host without faults has no
// findings.
func TestDoctorFindsPlantedFaults(t *testing.T) {
	if found := newPatient(t).findings(); len(found) > 0 {
		t.Errorf("all is well, and found is %v", found)
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			if fault.name == "uids of somebody here" && os.Geteuid() != 0 {
				t.Skip("only root runs jobs as others, and looks who they are")
			}
			p := newPatient(t)
			fault.plant(p)
			found := p.findings()
			hit := false
			for _, f := range found {
				hit = hit || f.Check == fault.check && strings.Contains(f.Words, fault.words)
				if f.Way == "" {
					t.Errorf("%v has no way out", f)
				}
				if without := p.o.tls == "" && f.Check == "certificate"; f.Check != fault.check && !without {
					t.Errorf("beside the fault there is %v", f)
				}
			}
			if !hit {
				t.Errorf("%s with %q is not found, but %v", fault.check, fault.words, found)
			}
		})
	}
	if len(faults) < 12 {
		t.Errorf("only %d faults", len(faults))
	}
}

// TestDoctorReports checks the output for users and programs, and that a failure is an error but a warning is not.
func TestDoctorReports(t *testing.T) {
	var out bytes.Buffer
	all := []doctor.Finding{doctor.OK("a", "fine"), doctor.Warn("b", "do this", "odd")}
	if err := doctor.Report(&out, false, all); err != nil {
		t.Errorf("a doubt fails: %v", err)
	}
	if want := "warn  b               odd\n                        do this\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q, want it to end with %q", out.String(), want)
	}
	out.Reset()
	err := doctor.Report(&out, true, append(all, doctor.Fail("c", "do that", "bad")))
	if err == nil || !strings.Contains(out.String(), `"failed": 1`) || !strings.Contains(out.String(), `"fix": "do that"`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
