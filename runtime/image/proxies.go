//go:build linux

package image

import (
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// This file owns the proxies in the agent's environment. An operator chose them, so they may be on the node.

const dialTimeout = 5 * time.Second

// proxies records the proxies that were chosen.
type proxies struct {
	of  func(*http.Request) (*url.URL, error) // nil: there are none
	all sync.Map                              // host:port → struct{}
}

// choose returns the proxy for a request; nil: none.
func (p *proxies) choose(r *http.Request) (*url.URL, error) {
	if p.of == nil {
		return nil, nil
	}
	proxy, err := p.of(r)
	if err == nil && proxy != nil {
		p.all.Store(hostPort(proxy), struct{}{})
	}
	return proxy, err
}

// have reports whether a dialed host is a proxy.
func (p *proxies) have(host string) bool {
	_, ok := p.all.Load(host)
	return ok
}

// hostPort returns the address at which a transport dials a proxy.
func hostPort(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}
