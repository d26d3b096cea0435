//go:build linux

package private

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// This file tests whether the kernel supports private networks.

// tried makes an interface and a table of rules in a temporary namespace.
func tried() error {
	return onThread(unix.CLONE_NEWNET, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = family + "0"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: insideName}); err != nil {
			return fmt.Errorf("the kernel cannot create virtual interfaces (veth): %w", err)
		}
		if err := (&Networks{prefix: family + "000000"}).write(true); err != nil {
			return fmt.Errorf("the kernel does not support the rules (nf_tables with fib, ct and masquerade): %w", err)
		}
		return nil
	})
}
