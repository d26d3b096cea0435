//go:build linux

// This file tests which network destinations a task can reach, with every driver.
package conformance

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// answerer answers at an address over TCP and UDP, as a service in the network of this thread.
func answerer(t testing.TB, address string) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(listener.Addr().String())
	packets, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		packets.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], from)
		}
	}()
	return at
}

// dialling runs a job that tries words of the probe, and returns the answers.
func (s *stack) dialling(t testing.TB, folder string, change func(*messages.JobSpec),
	words ...string) map[string]string {
	t.Helper()
	r := s.try(t, able.MakeRootfs(t), "", func(j *messages.JobSpec) {
		j.Command = append([]string{filepath.Join(folder, "probe"), probeArgument}, words...)
		mounting(folder, folder)(j)
		change(j)
	})
	if r.exit.Kind != messages.ExitKind_EXIT_KIND_EXITED || r.exit.Code != 0 {
		t.Fatalf("the probe: %v, %s", r.exit, r.said)
	}
	return answers(r.said)
}

func on(n messages.Network) func(*messages.JobSpec) {
	return func(j *messages.JobSpec) { j.Network = n }
}

// TestNetworkNone checks that a job without a network has a working loopback and reaches nothing on the host. Its
// rendezvous is on that loopback.
func TestNetworkNone(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	service := answerer(t, "127.0.0.1").String()
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		none := on(messages.Network_NETWORK_NONE)
		if driver == "process" {
			r := s.try(t, able.MakeRootfs(t), "exit 0", none)
			if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.HasPrefix(r.exit.Detail,
				"network: ") {
				t.Errorf("%v", r.exit)
			}
			return
		}
		folder := shown(t)
		there := s.dialling(t, folder, on(messages.Network_NETWORK_HOST), "tcp "+service, "send "+service)
		if there["tcp "+service] != "allowed" || there["send "+service] != "allowed" {
			t.Errorf("on the host's network: %v", there)
		}
		words := []string{"tcp " + service, "udp " + service, "tcp 192.0.2.1:9", "tcp [2001:db8::1]:9", "own"}
		want := map[string]string{
			"tcp " + service: "ECONNREFUSED", "udp " + service: "ECONNREFUSED", "tcp 192.0.2.1:9": "ENETUNREACH",
			"tcp [2001:db8::1]:9": "ENETUNREACH", "own": "allowed",
		}
		got := s.dialling(t, folder, none, words...)
		for word, answer := range want {
			if got[word] != answer {
				t.Errorf("%s is answered %q, not %q", word, got[word], answer)
			}
		}
		r := s.try(t, able.MakeRootfs(t), "echo $MASTER_ADDR $SYNAPSE_HOSTS; ls /sys/class/net", none)
		if r.said != "127.0.0.1 127.0.0.1\nlo\n" {
			t.Errorf("%v %q", r.exit, r.said)
		}
	})
}
