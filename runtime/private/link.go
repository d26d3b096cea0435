//go:build linux

package private

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// This file owns one network: its namespace, its two interfaces, and their addresses.

func isNamespace(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && int64(stat.Type) == unix.NSFS_MAGIC
}

// newNamespace makes a network namespace with a loopback interface, which alone has IPv6. It binds the namespace to a
// file, so it outlives the thread that made it.
func newNamespace(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	file.Close()
	return onThread(unix.CLONE_NEWNET, func() error {
		loopback, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(loopback)
		}
		if err != nil {
			return err
		}
		if err := withoutIPv6("default"); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
}

// onThread calls do on a new thread with separate namespaces. The thread ends afterwards.
func onThread(namespaces int, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, because no other goroutine may run on it
		if err := unix.Unshare(namespaces); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// withoutIPv6 disables IPv6 on an interface of the calling thread's namespace. A kernel without IPv6 has no such file.
func withoutIPv6(name string) error {
	err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// connect connects a namespace to the host.
func connect(name, namespace string) error {
	inside, err := netns.GetFromPath(namespace)
	if err != nil {
		return err
	}
	defer inside.Close()
	there, err := netlink.NewHandleAt(inside, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer there.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: insideName, PeerNamespace: netlink.NsFd(int(inside))}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("create the virtual interfaces: %w", err)
	}
	here, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := withoutIPv6(name); err != nil {
		return err
	}
	subnet, err := free()
	if err != nil {
		return err
	}
	gateway := subnet.Addr().Next()
	task := gateway.Next()
	if err := address(&netlink.Handle{}, here, gateway, subnet.Bits()); err != nil {
		return err
	}
	end, err := there.LinkByName(insideName)
	if err != nil {
		return err
	}
	if err := address(there, end, task, subnet.Bits()); err != nil {
		return err
	}
	return there.RouteAdd(&netlink.Route{LinkIndex: end.Attrs().Index, Gw: net.IP(gateway.AsSlice())})
}

// address gives an interface its address, and enables it.
func address(at *netlink.Handle, link netlink.Link, a netip.Addr, bits int) error {
	given := &netlink.Addr{IPNet: &net.IPNet{IP: net.IP(a.AsSlice()), Mask: net.CIDRMask(bits, 32)}}
	if err := at.AddrAdd(link, given); err != nil {
		return fmt.Errorf("add the address %v: %w", a, err)
	}
	return at.LinkSetUp(link)
}

const subnetBits = 30

// free returns addresses that no interface of this host has, and to which only the default route leads.
func free() (netip.Prefix, error) {
	var taken []netip.Prefix
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, err
	}
	for _, a := range addresses {
		taken = append(taken, prefixOf(a.IPNet))
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, err
	}
	for _, r := range routes {
		if p := prefixOf(r.Dst); p.Bits() > 0 {
			taken = append(taken, p)
		}
	}
	for at := span.Addr(); span.Contains(at); {
		subnet := netip.PrefixFrom(at, subnetBits)
		if !overlaps(taken, subnet) {
			return subnet, nil
		}
		for range 1 << (32 - subnetBits) {
			at = at.Next()
		}
	}
	return netip.Prefix{}, fmt.Errorf("all addresses of %v are in use on this node or routed elsewhere; remove unused "+
		"networks or routes", span)
}

func overlaps(taken []netip.Prefix, p netip.Prefix) bool {
	for _, t := range taken {
		if t.Overlaps(p) {
			return true
		}
	}
	return false
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits)
}
