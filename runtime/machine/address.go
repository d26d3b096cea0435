package machine

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// This file owns the address and the ports at which other members of a gang reach this node.

// Advertise returns this node's address on the route to the scheduler, which other nodes can usually reach too. It
// sends nothing, and only asks the kernel for the route. Without a scheduler's address, it returns the first address
// that is not loopback, or loopback if there is no other.
func Advertise(toward string) (string, error) {
	if toward != "" {
		host, port, err := net.SplitHostPort(toward)
		if err != nil {
			host, port = toward, "9"
		}
		conn, err := net.Dial("udp", net.JoinHostPort(host, port))
		if err != nil {
			return "", fmt.Errorf("no route to %s: %w; set the address to advertise", toward, err)
		}
		defer conn.Close()
		return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list the addresses: %w", err)
	}
	var second string
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast():
		case ip.IP.To4() != nil:
			return ip.IP.String(), nil
		case second == "":
			second = ip.IP.String()
		}
	}
	if second == "" {
		second = "127.0.0.1"
	}
	return second, nil
}

const (
	defaultFirstPort = 20000
	defaultPorts     = 1000
	lastPort         = 65535
)

// Ports returns the range of rendezvous ports; zeros: a default. The range must not overlap the kernel's ports for
// outgoing connections, which could take a gang's port.
func Ports(first, count int) (int32, int32, error) {
	low, high := ephemeralPorts("/proc/sys/net/ipv4/ip_local_port_range")
	if count == 0 {
		count = defaultPorts
	}
	if first == 0 {
		first = defaultFirstPort
		if first <= high && low <= first+count-1 {
			if first = low - count; first < 1024 {
				first = high + 1
			}
		}
	}
	last := first + count - 1
	switch {
	case first < 1 || count < 1 || last > lastPort:
		return 0, 0, fmt.Errorf("ports: a range of %d ports from %d on is too large; the last port is %d",
			count, first, lastPort)
	case first <= high && low <= last:
		return 0, 0, fmt.Errorf("ports: %d-%d overlaps with %d-%d, which the kernel uses for outgoing connections; choose "+
			"another range, or change net.ipv4.ip_local_port_range", first, last, low, high)
	}
	return int32(first), int32(last), nil
}

func ephemeralPorts(name string) (low, high int) {
	low, high = 32768, 60999
	if data, err := os.ReadFile(name); err == nil {
		var l, h int
		if n, _ := fmt.Sscan(strings.TrimSpace(string(data)), &l, &h); n == 2 && l <= h {
			low, high = l, h
		}
	}
	return low, high
}
