//go:build linux

package private

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// This file configures name resolution in a private network, which cannot reach services of the host itself. A name
// server on the host, such as systemd-resolved's 127.0.0.53, is replaced with the servers that it forwards to.

// names returns the /etc/resolv.conf of a network.
func (n *Networks) names() (string, error) {
	servers, rest := n.o.Resolvers, []string(nil)
	var asked []string
	files := n.o.Names
	if files == nil {
		files = usualNames
	}
	for _, path := range files {
		found, others := readNames(path)
		if rest == nil {
			rest = others // the other lines apply to any server
		}
		for _, a := range found {
			switch {
			case len(n.o.Resolvers) > 0: // the policy names the servers
			case a.Is4() && !a.IsLoopback() && !a.IsUnspecified() && !own(a):
				servers = append(servers, a)
			case a.Is4() || a.IsLoopback():
				asked = append(asked, a.String())
			}
		}
		if len(servers) > 0 {
			break
		}
	}
	if len(servers) == 0 && len(asked) > 0 {
		return "", fmt.Errorf("names would not resolve in private networks: this node is its own name server "+
			"(%s), and its upstream servers are unknown; list servers under resolvers in the node's policy",
			strings.Join(asked, ", "))
	}
	var text strings.Builder
	for _, a := range servers {
		fmt.Fprintf(&text, "nameserver %v\n", a)
	}
	for _, line := range rest {
		text.WriteString(line + "\n")
	}
	return text.String(), nil
}

// readNames reads the servers and the other lines of one file.
func readNames(path string) (servers []netip.Addr, rest []string) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		switch words := strings.Fields(lines.Text()); {
		case len(words) < 2:
		case words[0] == "nameserver":
			if a, err := netip.ParseAddr(words[1]); err == nil {
				servers = append(servers, a.Unmap())
			}
		case slices.Contains([]string{"search", "domain", "options"}, words[0]):
			rest = append(rest, lines.Text())
		}
	}
	return servers, rest
}

// own reports whether an address belongs to this host.
func own(a netip.Addr) bool {
	addresses, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(addresses, func(of net.Addr) bool {
		prefix, err := netip.ParsePrefix(of.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

// Lacks returns the reason why this node cannot have private networks; nil: it can. It tests everything in a temporary
// namespace.
func Lacks(o Options) error {
	if os.Geteuid() != 0 {
		return errors.New("private networks require an agent that runs as root")
	}
	if _, err := (&Networks{o: o}).names(); err != nil {
		return err
	}
	return tried()
}
