//go:build linux

package image

import (
	"net/netip"
	"testing"
)

// TestAddressesInside checks each form of an address of the node itself. No address of another host counts as inside,
// private or not.
func TestAddressesInside(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::5")}
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.255.255.254": true, "::1": true, "::ffff:127.0.0.1": true, "::127.0.0.1": true,
		"0.0.0.0": true, "0.1.2.3": true, "::": true, "::ffff:0.0.0.0": true,
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "fe80::1": true,
		"fe80::1%eth0": true, "febf::1": true, "224.0.0.1": true, "ff02::1": true,
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00::5": true,
		"10.1.2.4": false, "172.16.0.1": false, "192.168.1.1": false, "100.64.0.1": false, "fd00::6": false,
		"203.0.113.9": false, "2001:db8::1": false, "169.253.0.1": false, "fec0::1": false, "128.0.0.1": false,
		"64:ff9b::808:808": false,
	} {
		if got := inside(netip.MustParseAddr(text), own); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}
