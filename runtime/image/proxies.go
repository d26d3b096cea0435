//go:build linux

package image

import (
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// This file owns the proxies that the agent's environment names. An operator chose them, so they may be on the node.

const dialTimeout = 5 * time.Second

// proxies remembers which proxies were chosen.
type proxies struct {
	of  func(*http.Request) (*url.URL, error) // nil: there are none
	all sync.Map                              // host:port → struct{}
}

// choose is the proxy for a request; nil: none.
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

// have reports whether what is dialled is a proxy.
func (p *proxies) have(host string) bool {
	_, ok := p.all.Load(host)
	return ok
}

// hostPort is how a transport dials a proxy.
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
