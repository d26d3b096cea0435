//go:build linux

// Package egress prevents tasks from connecting to the schedulers' ports and to the cloud's metadata service, which
// reveals secrets. It defines a place, and the filter on a task's cgroup that refuses connections to it. The agent
// decides which places are blocked for a task.
package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/bpf"
)

// Place is a network destination that a task must not reach.
type Place struct {
	Net  netip.Prefix `json:"net"`
	Port uint16       `json:"port,omitempty"` // 0: every port
}

// maxPlaces bounds the length of a filter, which compares one place after the other.
const maxPlaces = 1024

func (p Place) String() string {
	if p.Port == 0 {
		return p.Net.String()
	}
	return netip.AddrPortFrom(p.Net.Addr(), p.Port).String()
}

// Metadata returns the addresses of the metadata services of clouds.
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

// loopbacks lists addresses that lead to services of the host itself. The unspecified addresses lead there too.
var loopbacks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/32"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::/128"),
}

// Services returns the addresses under which services are reachable from this node, whose own addresses are given. A
// service on this node is reachable under all of them.
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

// everywhere blocks the ports at every address, which turns many places into few. It blocks more than necessary, and
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

// hooks lists the points at which a socket gets a destination address.
var hooks = []struct {
	hook bpf.Hook
	six  bool
}{
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET4_CONNECT}, false},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET6_CONNECT}, true},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP4_SENDMSG}, false},
	{bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP6_SENDMSG}, true},
}

// Refuse makes a cgroup of v2 refuse new connections to places, instead of the earlier ones. It applies to all
// processes in the group and in groups below it. Existing connections continue.
func Refuse(group string, places []Place) error {
	if len(places) > maxPlaces {
		return fmt.Errorf("%d destinations exceed the limit of %d per filter", len(places), maxPlaces)
	}
	for _, h := range hooks {
		if err := h.hook.Put(group, filter(places, h.six)); err != nil {
			return err
		}
	}
	return nil
}

// The kernel's view of a socket's address (struct bpf_sock_addr): an IPv4 address, the four words of an IPv6 address,
// and the port, each in network byte order.
const (
	offsetFour = 4
	offsetSix  = 8
	offsetPort = 24

	portRegister = 6
	firstWord    = 2 // the register of the address's first word
	scratch      = 7
)

// filter returns the program. It compares the address with each place. It refuses the address if one matches, and
// otherwise permits it.
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

// seen returns a network as a socket of one family sees it. An IPv6 socket sees an IPv4 address in the mapped form.
func seen(net netip.Prefix, six bool) (netip.Prefix, bool) {
	switch {
	case net.Addr().Is4() && six:
		return netip.PrefixFrom(netip.AddrFrom16(net.Addr().As16()), 96+net.Bits()), true
	case net.Addr().Is4() != !six:
		return net, false
	}
	return net, true
}

// refuse adds the comparison with one place.
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
