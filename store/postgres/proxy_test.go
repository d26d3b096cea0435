package postgres

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// This file owns a connection between a store and its server that tests can break.

// proxy is a socket in front of the server's socket.
type proxy struct {
	dir, behind string
	listener    net.Listener

	mu    sync.Mutex
	mode  mode
	conns map[net.Conn]struct{}
}

type mode int

const (
	passing mode = iota
	deaf         // the client's data arrives, but the connection breaks instead of an answer
	stuck        // no data passes, and nothing breaks
)

const socket = ".s.PGSQL.5432"

// newProxy returns a proxy and a URL that uses it.
func newProxy(t *testing.T, direct string) (p *proxy, through string) {
	t.Helper()
	to, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	settings := to.Query()
	p = &proxy{dir: t.TempDir(), behind: filepath.Join(settings.Get("host"), socket), conns: map[net.Conn]struct{}{}}
	if p.listener, err = net.Listen("unix", filepath.Join(p.dir, socket)); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		wait.Wait()
	})
	settings.Set("host", p.dir)
	to.RawQuery = settings.Encode()
	return p, to.String()
}

func (p *proxy) is(m mode) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode == m
}

// set changes the mode from now on.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) hold(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.behind)
	if err != nil {
		_ = client.Close()
		return
	}
	p.hold(client)
	p.hold(server)
	var wait sync.WaitGroup
	wait.Go(func() { p.carry(server, client, false) })
	p.carry(client, server, true)
	_ = client.Close()
	_ = server.Close()
	wait.Wait()
}

// carry copies one direction until it breaks. The server answers only after the work is done, so the commit of a deaf
// client is done.
func (p *proxy) carry(to, from net.Conn, answers bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			_ = to.Close()
			return
		}
		switch {
		case p.is(stuck):
			_, _ = io.Copy(io.Discard, from)
			return
		case answers && p.is(deaf):
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}
