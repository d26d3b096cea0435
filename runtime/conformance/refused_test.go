//go:build linux

package conformance

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/test/able"
)

// withheld lists the blocked destinations for the tasks of the stacks of a test.
var withheld []egress.Place

// withhold blocks destinations for the tasks of one test.
func withhold(t *testing.T, places []egress.Place) {
	t.Helper()
	groups := carapace.Cgroups{Parent: "/" + NewID()}
	t.Cleanup(func() { // they stay while other processes make containers
		until(t, groups.Parent+" is left", func() bool {
			_, err := carapace.GC(t.TempDir(), groups)
			return err == nil && len(parents(groups.Parent)) == 0
		})
	})
	for _, finding := range carapace.Check(groups) {
		if finding.Name == carapace.LackOfReach && !finding.OK {
			t.Skip(finding.Reason)
		}
	}
	withheld = places
	t.Cleanup(func() { withheld = nil })
}

// ways returns all words with which a task connects to a port of this host.
func ways(port string) (words []string) {
	for _, address := range []string{"127.0.0.1", "127.8.9.10", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]",
		"[::1]", "[::]"} {
		for _, how := range []string{"tcp", "mptcp", "fast", "udp", "send"} {
			words = append(words, how+" "+address+":"+port)
		}
	}
	return words
}

// TestReachRefused checks that on the host's network, a task reaches neither a scheduler, by any name of the host, nor
// the cloud's metadata service. It tests TCP, UDP, IPv6, and IPv4 mapped to IPv6. All other destinations are reachable,
// so gangs can communicate.
func TestReachRefused(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	scheduler, peer := answererOfAll(t), answererOfAll(t)
	withhold(t, slices.Concat(egress.Metadata(),
		egress.Services([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:" + scheduler)}, nil)))
	refused := ways(scheduler)
	for _, address := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "169.254.169.254:53",
		"[fd00:ec2::254]:80"} {
		refused = append(refused, "tcp "+address, "udp "+address, "send "+address, "fast "+address)
	}
	free := []string{"tcp 127.0.0.1:" + peer, "send 127.0.0.1:" + peer, "tcp [::1]:" + peer,
		"tcp [::ffff:127.0.0.1]:" + peer, "udp [::1]:" + peer}
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // plain processes have no filter, as docs/explain/isolation.md says
		}
		got := s.dialling(t, shown(t), func(*messages.JobSpec) {}, slices.Concat(refused, free)...)
		for _, word := range refused {
			if got[word] != "EPERM" && !(strings.HasPrefix(word, "mptcp") && got[word] == "EPROTONOSUPPORT") {
				t.Errorf("%s is answered %q", word, got[word])
			}
		}
		for _, word := range free {
			if got[word] != "allowed" {
				t.Errorf("%s is answered %q", word, got[word])
			}
		}
	})
}

// TestReachFollows checks that a scheduler's new address is blocked for a running task, and its old address is not.
func TestReachFollows(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	before, after := answererOfAll(t), answererOfAll(t)
	withhold(t, nil)
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return
		}
		at := before
		names := func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		keeper := egress.NewKeeper(egress.Options{Schedulers: []string{"head:" + at}, Resolve: names, Tell: t.Logf})
		withheld = keeper.Places()
		folder, flag := shown(t), filepath.Join(place(t, "flag", 0o755, ofNobody), "moved")
		probe := filepath.Join(folder, "probe") + " " + probeArgument + " 'tcp 127.0.0.1:" + before +
			"' 'tcp 127.0.0.1:" + after + "'"
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			until(t, "the task does not run", func() bool {
				return s.groups() != nil &&
					exists(filepath.Join(filepath.Dir(flag), "runs"))
			})
			next := egress.NewKeeper(egress.Options{Schedulers: []string{"head:" + after}, Resolve: names, Tell: t.Logf})
			next.Hold(s.groups())
			write(t, flag, "", 0o644)
		}()
		script := probe + "; : > /flag/runs; while ! test -e /flag/moved; do sleep 0.02; done; " + probe
		r := s.try(t, able.MakeRootfs(t), script, mounting(folder, folder, filepath.Dir(flag), "/flag"))
		<-moved
		want := "tcp 127.0.0.1:" + before + ": EPERM\ntcp 127.0.0.1:" + after + ": allowed\n" +
			"tcp 127.0.0.1:" + before + ": allowed\ntcp 127.0.0.1:" + after + ": EPERM\n"
		if r.said != want {
			t.Errorf("%v %q, not %q", r.exit, r.said, want)
		}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// groups returns the cgroups of the stack's tasks.
func (s *stack) groups() []string {
	return s.options.Drivers[0].(interface{ Groups() []string }).Groups()
}

// answererOfAll answers on every address of the host, and returns the port.
func answererOfAll(t *testing.T) string {
	t.Helper()
	_, port, _ := strings.Cut(answerer(t, "::").String(), "]:")
	return port
}
