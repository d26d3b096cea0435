//go:build linux

// This file defines the probe's words for the network, such as "tcp ADDRESS". An address in brackets uses an IPv6
// socket, also if it is mapped from IPv4.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// dialLimit bounds the wait for an answer. A dropped packet gets no answer.
const dialLimit = time.Second

// asks is the number of tries if an answer is expected, because the answering process may be delayed.
const asks = 10

// dials maps the words to a task's ways to connect to an address.
var dials = map[string]func(netip.AddrPort) error{
	"tcp":   func(to netip.AddrPort) error { return dial(to, unix.SOCK_STREAM, 0, unix.Connect) },
	"mptcp": func(to netip.AddrPort) error { return dial(to, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, unix.Connect) },
	"fast":  func(to netip.AddrPort) error { return dial(to, unix.SOCK_STREAM, 0, sendWith(unix.MSG_FASTOPEN)) },
	"udp":   func(to netip.AddrPort) error { return dial(to, unix.SOCK_DGRAM, 0, repeat(connectAndAsk)) },
	"send":  func(to netip.AddrPort) error { return dial(to, unix.SOCK_DGRAM, 0, repeat(ask)) },
	"once":  func(to netip.AddrPort) error { return dial(to, unix.SOCK_DGRAM, 0, ask) }, // no answer is expected
}

// dialling returns the function for a word; known is false for other words.
func dialling(word string) (try func() error, known bool) {
	how, where, _ := strings.Cut(word, " ")
	if how == "name" {
		return func() error { return resolve(where) }, true
	}
	return func() error {
		to, err := netip.ParseAddrPort(where)
		if err != nil {
			return err
		}
		return dials[how](to)
	}, dials[how] != nil
}

// waits reports whether a word of the probe waits for the network.
func waits(word string) bool {
	_, dials := dialling(word)
	return dials || word == "is called"
}

// resolve looks a name up in /etc/resolv.conf like a program without a C library.
func resolve(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), asks*dialLimit)
	defer cancel()
	found, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, name)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no address", name)
	}
	return err
}

func dial(to netip.AddrPort, kind, protocol int, how func(int, unix.Sockaddr) error) error {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(dialLimit))
	for _, of := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, of, &limit); err != nil {
			return err
		}
	}
	return how(fd, address)
}

// ownService lets a task connect to its own service on its loopback.
func ownService() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	return dials["tcp"](netip.MustParseAddrPort(listener.Addr().String()))
}

func sendWith(flags int) func(int, unix.Sockaddr) error {
	return func(fd int, to unix.Sockaddr) error { return unix.Sendto(fd, []byte("asked"), flags, to) }
}

// repeat asks again if there was no answer.
func repeat(ask func(int, unix.Sockaddr) error) func(int, unix.Sockaddr) error {
	return func(fd int, to unix.Sockaddr) (err error) {
		for range asks {
			if err = ask(fd, to); !errors.Is(err, unix.EAGAIN) {
				break
			}
		}
		return err
	}
}

// ask sends a datagram and waits for an answer.
func ask(fd int, to unix.Sockaddr) error {
	if err := unix.Sendto(fd, []byte("asked"), 0, to); err != nil {
		return err
	}
	_, _, err := unix.Recvfrom(fd, make([]byte, 16), 0)
	return err
}

func connectAndAsk(fd int, to unix.Sockaddr) error {
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("asked")); err != nil {
		return err
	}
	_, err := unix.Read(fd, make([]byte, 16))
	return err
}
