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

// This file restricts the addresses of requests for images. A job chooses the registry, and the agent is root on the
// node. Some services trust the node itself: those on loopback, at its own addresses, and a cloud's metadata service. A
// job must not reach them. The address is checked when it is dialed, after the name lookup. A name that leads there, a
// second lookup with another result, a redirection and a token server are therefore all covered. Other hosts of a
// private network stay permitted, because most registries are there.

var errInside = errors.New("the registry has an address of the node itself or of its link, which jobs may not " +
	"use; to permit it, an operator adds the host to registries: in the node's policy")

// inside reports whether an address is the node's own, or an address with a different meaning on every node.
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

// embedded returns the IPv4 address inside an IPv6 address that only represents it: an IPv4-compatible address, or that
// of a translator (NAT64).
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

// ownAddresses returns the current addresses of the node's interfaces. They may change.
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

// outward is a transport that does not dial the node's own addresses, unless the host is permitted.
type outward struct {
	next     http.RoundTripper
	allowed  func(host string) bool
	loopback bool
}

// newOutward returns the transport for registries.
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

// RoundTrip refuses an IP address in the URL, which a proxy would dial.
func (o outward) RoundTrip(request *http.Request) (*http.Response, error) {
	address, err := netip.ParseAddr(request.URL.Hostname())
	if err == nil && !o.allows(request.URL.Host) {
		if err := o.refuse(address); err != nil {
			return nil, err
		}
	}
	return o.next.RoundTrip(request)
}

// allows reports whether a host is permitted, with its port, or without it if it is a default port.
func (o outward) allows(host string) bool {
	if o.allowed == nil {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	return o.allowed(host) || err == nil && (port == "443" || port == "80") && o.allowed(name)
}

// refuseDialled checks the address that is about to be dialed.
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
		return fmt.Errorf("list the node's own addresses: %w", err)
	}
	if inside(address, own) {
		return fmt.Errorf("%s: %w", address, errInside)
	}
	return nil
}
