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

// This file owns how names resolve in a network from which the machine's own services are not reached: a server on the
// machine itself, such as systemd-resolved's 127.0.0.53, is replaced by those that it asks in turn.

// names is the /etc/resolv.conf of a network.
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
			rest = others // the other lines hold for any server
		}
		for _, a := range found {
			switch {
			case len(n.o.Resolvers) > 0: // the machine's owner has named them
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
		return "", fmt.Errorf("names would not resolve in it: this machine asks itself (%s), and does not say which servers "+
			"that asks; list servers under resolvers in its policy", strings.Join(asked, ", "))
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

// readNames reads one file: the servers that it lists, and its other lines.
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

// own reports whether an address is one of this machine.
func own(a netip.Addr) bool {
	addresses, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(addresses, func(of net.Addr) bool {
		prefix, err := netip.ParsePrefix(of.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

// Lacks returns why this machine cannot have private networks; nil: it can. It tries everything in a namespace of its
// own, which is gone afterwards.
func Lacks(o Options) error {
	if os.Geteuid() != 0 {
		return errors.New("the agent is not root")
	}
	if _, err := (&Networks{o: o}).names(); err != nil {
		return err
	}
	return tried()
}
