//go:build linux

// This file tests that other users of the address span of private networks are not affected.
package conformance

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestNetworkForeign checks that an address of the span without a private network is never translated. This holds for
// packets of the host to others and to itself, and for forwarded packets of another program. Packets from a private
// network get the host's address. It also holds after an earlier agent whose rules matched the span.
func TestNetworkForeign(t *testing.T) {
	onAMachine(t, func(t *testing.T, o *outside) {
		must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)) // for another program
		const own, theirs = "198.19.8.1", "198.19.8.2"
		program, fd := elsewhere(t, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "their0"
		must(t, netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attributes, PeerName: "their1", PeerNamespace: netlink.NsFd(fd),
		}))
		give(t, "their0", own+"/30")
		program.do(func() {
			give(t, "their1", theirs+"/30")
			must(t, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(own)}))
		})
		dir, holder := filepath.Join(t.TempDir(), "networks"), t.TempDir()
		joined, err := newNetworks(t, dir).Join("job", holder)
		must(t, err)
		task, _ := elsewhere(t, func() error {
			namespace, err := os.Open(joined.Namespace)
			if err == nil {
				defer namespace.Close()
				err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
			}
			return err
		})
		var beyond string
		o.do(func() { beyond = net.JoinHostPort(outsideAddress, mirror(t)) })
		here := net.JoinHostPort(own, mirror(t))
		expect := func(when string) {
			t.Helper()
			machine := func(do func()) { do() }
			for _, of := range []struct {
				what         string
				where        func(func())
				from, to, as string
			}{
				{"the machine, to others", machine, own, beyond, own},
				{"the machine, to itself", machine, own, here, own},
				{"another program", program.do, theirs, beyond, theirs},
				{"a private network", task.do, "", beyond, machineAddress},
			} {
				of.where(func() {
					if got := seenAs(of.from, of.to); got != of.as {
						t.Errorf("%s: a connection of %s seems to come from %s, not from %s", when, of.what, got, of.as)
					}
				})
			}
		}
		expect("at first")
		asEarlier(t)
		if got := seenAs(own, here); got == own {
			t.Error("an earlier agent's rules translate nothing here, so that their end says nothing")
		}
		next := newNetworks(t, dir)
		must(t, next.Refuse(nil))
		expect("taken over from an earlier agent")
		must(t, next.Release("job", holder))
	})
}

// mirror answers each connection with the address of its peer.
func mirror(t *testing.T) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp4", ":0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			address, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			_, _ = io.WriteString(conn, address)
			conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

// seenAs asks a mirror from an address of the calling thread's namespace; empty: any.
func seenAs(from, to string) string {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := dialer.Dial("tcp4", to)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	address, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(address)
}

// asEarlier writes the rules of earlier agents into the table, which translate every address of the span.
func asEarlier(t *testing.T) {
	t.Helper()
	rules, err := nftables.New()
	must(t, err)
	tables, err := rules.ListTables()
	must(t, err)
	if len(tables) != 1 {
		t.Fatalf("there are %d tables, not the agent's one", len(tables))
	}
	priority := nftables.ChainPriority(*nftables.ChainPriorityNATSource - 1)
	rules.AddRule(&nftables.Rule{Table: tables[0], Chain: rules.AddChain(&nftables.Chain{
		Name: "earlier", Table: tables[0], Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: &priority,
	}), Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0xff, 0xfe}, Xor: []byte{0, 0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{198, 18}},
		&expr.Masq{},
	}})
	must(t, rules.Flush())
}
