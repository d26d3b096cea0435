//go:build linux

package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/yi-json/synapse/runtime/bpf"
)

// TestServices checks that a service on another node has one address, and one on this node has all addresses of the
// node.
func TestServices(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fe80::7%eth0")}
	for at, want := range map[string][]string{
		"10.0.0.9:9000":       {"10.0.0.9:9000"},
		"[2001:db8::9]:9000":  {"[2001:db8::9]:9000"},
		"[::ffff:10.0.0.9]:1": {"10.0.0.9:1"},
		"10.0.0.7:9000": {"127.0.0.0:9000", "0.0.0.0:9000", "[::1]:9000", "[::]:9000", "10.0.0.7:9000",
			"[fe80::7]:9000"},
		"127.0.0.1:9000": {"127.0.0.0:9000", "0.0.0.0:9000", "[::1]:9000", "[::]:9000", "10.0.0.7:9000",
			"[fe80::7]:9000"},
	} {
		var got []string
		for _, place := range Services([]netip.AddrPort{netip.MustParseAddrPort(at)}, own) {
			got = append(got, place.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", at, got, want)
		}
	}
}

// TestKeeper checks that the blocked destinations follow a name that changes, and keep the latest addresses while the
// name cannot be resolved. Permitted destinations are not included.
func TestKeeper(t *testing.T) {
	answer, failed := "10.0.0.9", error(nil)
	o := Options{
		Schedulers: []string{"head:9000", "10.0.0.8:9001"}, Disclosed: true, Own: func() []netip.Addr { return nil },
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "head" {
				host = answer
			}
			return []netip.Addr{netip.MustParseAddr(host)}, failed
		},
	}
	k := NewKeeper(o)
	for _, step := range []struct {
		answer string
		failed error
		want   string
	}{
		{"10.0.0.9", nil, "[10.0.0.8:9001 10.0.0.9:9000]"},
		{"10.0.0.10", nil, "[10.0.0.10:9000 10.0.0.8:9001]"},
		{"10.0.0.11", errors.New("no answer"), "[10.0.0.10:9000 10.0.0.8:9001]"},
		{"10.0.0.12", nil, "[10.0.0.12:9000 10.0.0.8:9001]"},
	} {
		answer, failed = step.answer, step.failed
		if k.look(); fmt.Sprint(k.Places()) != step.want {
			t.Errorf("%v, not %s", k.Places(), step.want)
		}
	}
	failed, o.Reachable = nil, true
	if got := NewKeeper(o).Places(); len(got) > 0 {
		t.Errorf("all is allowed, and refused is %v", got)
	}
	o.Disclosed = false
	if got := NewKeeper(o).Places(); len(got) != len(Metadata()) {
		t.Errorf("%v", got)
	}
}

// TestRunningTasksFollow checks that each running task gets the blocked destinations once, and again after a change or
// a failure. A group that was removed and made again belongs to another task.
func TestRunningTasksFollow(t *testing.T) {
	at := "10.0.0.9"
	k := NewKeeper(Options{
		Schedulers: []string{"head:9000"}, Disclosed: true, Own: func() []netip.Addr { return nil },
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(at)}, nil },
	})
	var given []string
	fails := map[string]error{}
	k.refuse = func(group string, places []Place) error {
		given = append(given, fmt.Sprint(group, " ", places))
		return fails[group]
	}
	for i, step := range []struct {
		at     string
		groups []string
		fails  error // error of the group b
		want   []string
	}{
		{"10.0.0.9", []string{"a"}, nil, []string{"a [10.0.0.9:9000]"}},
		{"10.0.0.9", []string{"a", "b"}, errors.New("no"), []string{"b [10.0.0.9:9000]"}},
		{"10.0.0.9", []string{"a", "b"}, nil, []string{"b [10.0.0.9:9000]"}},
		{"10.0.0.9", []string{"a", "b"}, nil, nil},
		{"10.0.0.8", []string{"a", "b"}, nil, []string{"a [10.0.0.8:9000]", "b [10.0.0.8:9000]"}},
		{"10.0.0.7", []string{"b"}, nil, []string{"b [10.0.0.7:9000]"}},
		{"10.0.0.7", []string{"a", "b"}, nil, []string{"a [10.0.0.7:9000]"}},
		{"10.0.0.7", nil, nil, nil},
		{"10.0.0.7", []string{"a", "b"}, nil, []string{"a [10.0.0.7:9000]", "b [10.0.0.7:9000]"}},
	} {
		at, fails["b"], given = step.at, step.fails, nil
		k.look()
		if k.Hold(step.groups); !slices.Equal(given, step.want) {
			t.Errorf("step %d: %q, not %q", i, given, step.want)
		}
	}
}

// TestManyAddresses checks that on a node with more addresses than a filter can hold, only the scheduler's port is
// blocked at every address.
func TestManyAddresses(t *testing.T) {
	var own []netip.Addr
	for i := range 2 * maxPlaces {
		own = append(own, netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))
	}
	k := NewKeeper(Options{Schedulers: []string{"10.9.0.1:9000"}, Own: func() []netip.Addr { return own }})
	places := k.Places()
	if len(places) > maxPlaces {
		t.Fatalf("%d places", len(places))
	}
	for _, at := range []struct {
		address string
		port    uint16
		free    bool
	}{
		{"10.9.7.255", 9000, false}, {"127.0.0.1", 9000, false}, {"::1", 9000, false}, {"2001:db8::1", 9000, false},
		{"10.9.7.255", 9001, true}, {"169.254.169.254", 80, false}, {"2001:db8::1", 80, true},
	} {
		address := netip.MustParseAddr(at.address)
		if got := play(t, filter(places, address.Is6()), address, at.port); got != at.free {
			t.Errorf("%s port %d: the way is free: %t", at.address, at.port, got)
		}
	}
}

// TestFilter interprets the program and checks that an address is refused exactly if a place contains it, in the form
// of each family.
func TestFilter(t *testing.T) {
	places := []Place{
		{Net: netip.MustParsePrefix("169.254.169.254/32")}, {netip.MustParsePrefix("127.0.0.0/8"), 9000},
		{netip.MustParsePrefix("0.0.0.0/32"), 9000},
		{netip.MustParsePrefix("::1/128"), 9000}, {Net: netip.MustParsePrefix("fd00:ec2::254/128")},
		{netip.MustParsePrefix("10.1.2.0/23"), 80},
	}
	addresses := []string{
		"169.254.169.254", "169.254.169.253", "127.0.0.1", "127.255.3.4", "128.0.0.1", "0.0.0.0", "10.1.2.3",
		"10.1.3.255", "10.1.4.0", "::1", "::2", "::",
		"fd00:ec2::254", "fd00:ec2::255", "fd01:ec2::254", "::a9fe:a9fe", "2001:db8::ffff:169.254.169.254",
	}
	for _, text := range addresses {
		address := netip.MustParseAddr(text)
		for _, port := range []uint16{80, 9000, 10275} { // the last is 9000 in the other byte order
			want := slices.ContainsFunc(places, func(p Place) bool {
				return p.Net.Contains(address) && (p.Port == 0 || p.Port == port)
			})
			forms := []netip.Addr{address}
			if address.Is4() {
				forms = append(forms, netip.AddrFrom16(address.As16()))
			}
			for _, form := range forms {
				if got := play(t, filter(places, form.Is6()), form, port); got != !want {
					t.Errorf("%v port %d: the way is free: %t", form, port, got)
				}
			}
		}
	}
}

// play runs a program as the kernel would for the address of a socket.
func play(t *testing.T, program bpf.Program, address netip.Addr, port uint16) bool {
	t.Helper()
	var context [28]byte
	if address.Is4() {
		four := address.As4()
		copy(context[offsetFour:], four[:])
	} else {
		six := address.As16()
		copy(context[offsetSix:], six[:])
	}
	binary.BigEndian.PutUint16(context[offsetPort:], port)
	var registers [11]uint32
	for at := 0; ; at++ {
		op := program[8*at : 8*at+8]
		to, from := &registers[op[1]&15], registers[op[1]>>4]
		if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
			to, from = &registers[op[1]>>4], registers[op[1]&15]
		}
		offset, immediate := int(int16(binary.NativeEndian.Uint16(op[2:]))), binary.NativeEndian.Uint32(op[4:])
		switch op[0] {
		case bpf.Load32:
			*to = binary.NativeEndian.Uint32(context[offset:])
		case bpf.Copy32:
			*to = from
		case bpf.And32:
			*to &= immediate
		case bpf.Move64:
			*to = immediate
		case bpf.JumpNot32:
			if *to != immediate {
				at += offset
			}
		case bpf.Exit:
			return registers[0] == 1
		default:
			t.Fatalf("no instruction %#x", op[0])
		}
	}
}
