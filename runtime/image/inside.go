//go:build linux

package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// This file owns which addresses requests for images may go to. A job chooses the host, and the agent is root on the
// node: services that trust the node itself (on its loopback, at its own addresses, a cloud's metadata service) are not
// a job's to call. The address is checked when it is dialled, after the name was looked up, so neither a name that
// leads there, nor one that leads elsewhere the second time, nor a redirection or a token server gets around it. Other
// machines of a private network stay allowed: most registries are there.

var errInside = errors.New("the registry is at an address of the node itself or of its link, which jobs may not " +
	"call; an operator allows it by naming the host under registries: in the node's policy")

// inside reports whether an address is the node's own, or means something else on every machine.
func inside(address netip.Addr, own []netip.Addr) bool {
	address = embedded(address.Unmap()).WithZone("")
	if address.IsLoopback() || address.IsUnspecified() || address.IsLinkLocalUnicast() || address.IsMulticast() ||
		address.Is4() && address.As4()[0] == 0 {
		return true
	}
	for _, a := range own {
		if a == address {
			return true
		}
	}
	return false
}

// embedded is the IPv4 address within an IPv6 one that is only another way to write it: compatible ones, and those of
// a translator (NAT64).
func embedded(address netip.Addr) netip.Addr {
	if !address.Is6() {
		return address
	}
	bytes := address.As16()
	head, tail := [12]byte(bytes[:12]), [4]byte(bytes[12:])
	nat64 := [12]byte{0x00, 0x64, 0xff, 0x9b}
	if head == nat64 || head == [12]byte{} && address != netip.IPv6Loopback() && !address.IsUnspecified() {
		return netip.AddrFrom4(tail)
	}
	return address
}

// ownAddresses returns the present addresses of the node's interfaces. They change.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if of, ok := a.(*net.IPNet); ok {
			if address, ok := netip.AddrFromSlice(of.IP); ok {
				own = append(own, address.Unmap())
			}
		}
	}
	return own, err
}

// outward is a transport that does not dial the node's own addresses, unless the host is allowed.
type outward struct {
	next     http.RoundTripper
	allowed  func(host string) bool
	loopback bool
}

// newOutward is the transport for registries.
func newOutward(of Options) http.RoundTripper {
	o := outward{allowed: of.Inside, loopback: of.Loopback}
	usual := remote.DefaultTransport.(*http.Transport).Clone()
	proxies := proxies{of: usual.Proxy}
	usual.Proxy = proxies.choose
	usual.DialContext = func(ctx context.Context, network, host string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: dialTimeout, Resolver: of.Resolver}
		if !o.allows(host) && !proxies.have(host) {
			dialer.ControlContext = o.refuseDialled
		}
		return dialer.DialContext(ctx, network, host)
	}
	o.next = usual
	return o
}

// RoundTrip refuses an address that is written in the URL, which a proxy would dial.
func (o outward) RoundTrip(request *http.Request) (*http.Response, error) {
	address, err := netip.ParseAddr(request.URL.Hostname())
	if err == nil && !o.allows(request.URL.Host) {
		if err := o.refuse(address); err != nil {
			return nil, err
		}
	}
	return o.next.RoundTrip(request)
}

// allows reports whether a host is allowed, with its port or, if that is the usual one, without.
func (o outward) allows(host string) bool {
	if o.allowed == nil {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	return o.allowed(host) || err == nil && (port == "443" || port == "80") && o.allowed(name)
}

// refuseDialled looks at the address that is about to be dialled.
func (o outward) refuseDialled(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, errInside)
	}
	return o.refuse(to.Addr())
}

// refuse refuses an address that is inside.
func (o outward) refuse(address netip.Addr) error {
	if o.loopback && address.Unmap().IsLoopback() {
		return nil
	}
	own, err := ownAddresses()
	if err != nil {
		return fmt.Errorf("the node's own addresses cannot be listed: %w", err)
	}
	if inside(address, own) {
		return fmt.Errorf("%s: %w", address, errInside)
	}
	return nil
}
