//go:build linux

// Package egress keeps tasks from what they must not connect to: the schedulers' ports, and the service that gives a
// cloud's machines their secrets. It owns what a place is, and the filter on a task's control group that refuses
// connections to it. The agent decides which task is refused what.
package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/bpf"
)

// Place is a part of the network that a task must not reach.
type Place struct {
	Net  netip.Prefix `json:"net"`
	Port uint16       `json:"port,omitempty"` // 0: every port
}

// maxPlaces bounds the length of a filter: it compares one place after the other.
const maxPlaces = 1024

func (p Place) String() string {
	if p.Port == 0 {
		return p.Net.String()
	}
	return netip.AddrPortFrom(p.Net.Addr(), p.Port).String()
}

// Metadata are the places where clouds give their machines their secrets.
func Metadata() []Place {
	var places []Place
	for _, address := range []string{"169.254.169.254", "fd00:ec2::254", "fd20:ce::254"} {
		places = append(places, Place{Net: single(netip.MustParseAddr(address))})
	}
	return places
}

func single(a netip.Addr) netip.Prefix {
	return netip.PrefixFrom(a.Unmap().WithZone(""), a.Unmap().BitLen())
}

// loopbacks reach a service of the machine itself, whatever address it has. The unspecified addresses lead there too.
var loopbacks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/32"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::/128"),
}

// Services are the places where some services are reached from this machine, whose own addresses are given: one that
// is on this machine is reached by all of those.
func Services(at []netip.AddrPort, own []netip.Addr) []Place {
	var places []Place
	for _, service := range at {
		where := []netip.Prefix{single(service.Addr())}
		address := service.Addr().Unmap().WithZone("")
		is := func(a netip.Addr) bool { return a.Unmap().WithZone("") == address }
		if address.IsLoopback() || address.IsUnspecified() || slices.ContainsFunc(own, is) {
			where = slices.Clone(loopbacks)
			for _, a := range own {
				where = append(where, single(a))
			}
		}
		for _, net := range where {
			places = append(places, Place{net, service.Port()})
		}
	}
	return places
}

// everywhere refuses the ports of places at every address, which turns many places into few: more than was meant, and
// never less.
func everywhere(places []Place) []Place {
	var few []Place
	ports := map[uint16]bool{}
	for _, p := range places {
		switch {
		case p.Port == 0:
			few = append(few, p)
		case !ports[p.Port]:
			ports[p.Port] = true
			few = append(few, Place{netip.MustParsePrefix("0.0.0.0/0"), p.Port}, Place{netip.MustParsePrefix("::/0"), p.Port})
		}
	}
	return few
}

// hooks are the points where a socket gets an address to speak to.
var hooks = []struct {
	hook bpf.Hook
	six  bool
}{
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET4_CONNECT}, false},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET6_CONNECT}, true},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP4_SENDMSG}, false},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP6_SENDMSG}, true},
}

// Refuse makes a control group of v2 refuse connections to places, in place of those before. It holds for all that is
// in the group, and for groups below it; existing connections are not ended.
func Refuse(group string, places []Place) error {
	if len(places) > maxPlaces {
		return fmt.Errorf("%d places are more than the %d that a filter takes", len(places), maxPlaces)
	}
	for _, h := range hooks {
		if err := h.hook.Put(group, filter(places, h.six)); err != nil {
			return err
		}
	}
	return nil
}

// The kernel's view of a socket's address (struct bpf_sock_addr): an IPv4 address, the four words of an IPv6 one, and
// the port, each in the network's order.
const (
	offsetFour = 4
	offsetSix  = 8
	offsetPort = 24

	portRegister = 6
	firstWord    = 2 // the register of the address's first word
	scratch      = 7
)

// filter is the program: it compares the address with each place, refuses it where one matches, and else allows it.
func filter(places []Place, six bool) bpf.Program {
	var program bpf.Program
	words := 1
	if six {
		words = 4
	}
	for i := range words {
		offset := int16(offsetFour)
		if six {
			offset = int16(offsetSix + 4*i)
		}
		program.Emit(bpf.Load32, byte(firstWord+i), 1, offset, 0)
	}
	program.Emit(bpf.Load32, portRegister, 1, offsetPort, 0)
	for _, place := range places {
		if net, ok := seen(place.Net, six); ok {
			refuse(&program, net, place.Port)
		}
	}
	program.Answer(1)
	return program
}

// seen is a net as a socket of a family sees it. An IPv6 socket sees an IPv4 address in the mapped form.
func seen(net netip.Prefix, six bool) (netip.Prefix, bool) {
	switch {
	case net.Addr().Is4() && six:
		return netip.PrefixFrom(netip.AddrFrom16(net.Addr().As16()), 96+net.Bits()), true
	case net.Addr().Is4() != !six:
		return net, false
	}
	return net, true
}

// refuse compares with one place.
func refuse(program *bpf.Program, net netip.Prefix, port uint16) {
	type comparison struct {
		register   byte
		mask, word uint32
	}
	var all []comparison
	address := net.Masked().Addr().AsSlice()
	for i := range len(address) / 4 {
		bits := min(max(net.Bits()-32*i, 0), 32)
		if bits == 0 {
			continue
		}
		var mask [4]byte
		binary.BigEndian.PutUint32(mask[:], ^uint32(0)<<(32-bits))
		word := binary.NativeEndian.Uint32(address[4*i:])
		all = append(all, comparison{byte(firstWord + i), binary.NativeEndian.Uint32(mask[:]), word})
	}
	if port != 0 {
		var order [2]byte
		binary.BigEndian.PutUint16(order[:], port)
		all = append(all, comparison{portRegister, 0xffff, uint32(binary.NativeEndian.Uint16(order[:]))})
	}
	const perComparison, answer = 3, 2
	rest := len(all)*perComparison + answer
	for _, c := range all {
		program.Emit(bpf.Copy32, scratch, c.register, 0, 0)
		program.Emit(bpf.And32, scratch, 0, 0, c.mask)
		rest -= perComparison
		program.Emit(bpf.JumpNot32, scratch, 0, int16(rest), c.word)
	}
	program.Answer(0)
}
