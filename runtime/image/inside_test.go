//go:build linux

package image_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/yi-json/synapse/runtime/image"
)

// This file tests that no job can make the agent call the node's own services, by any name.

// insideWords is a part of the refusal.
const insideWords = "an address of the node itself"

// nobody permits no host.
func nobody(string) bool { return false }

// TestRegistriesInsideAreRefused tests addresses in each form, names that lead there, and the node's own addresses. No
// request arrives there. If the policy names one of them, it is an ordinary registry.
func TestRegistriesInsideAreRefused(t *testing.T) {
	h := newHub(t)
	h.push("a:1", imageOf(t, v1.Config{}, layerOf(t, "x", "y")))
	h.requests("", "")
	port := h.ref("")[strings.LastIndex(h.ref(""), ":")+1:]
	names := resolving(map[string]string{"evil.example.": "127.0.0.1", "meta.example.": "169.254.169.254"})
	hosts := []string{
		"127.0.0.1", "127.9.9.9", "localhost", "0.0.0.0", "169.254.169.254", "evil.example", "meta.example",
	}
	hosts = append(hosts, ownIPv4(t)...)
	store, _ := open(t, image.Options{Inside: nobody, Resolver: names})
	for _, host := range hosts {
		refused(t, store, host+":"+port+"a:1", insideWords, "registries:")
	}
	if n := h.requests("", ""); n != 0 {
		t.Errorf("%d requests arrived inside", n)
	}
	named := "127.0.0.1:" + strings.TrimSuffix(port, "/")
	allowed, _ := open(t, image.Options{Inside: func(host string) bool { return host == named }})
	prepare(t, allowed, h.ref("a:1"))
	refused(t, allowed, "127.9.9.9:"+port+"a:1", insideWords)
	looped, _ := open(t, image.Options{Inside: nobody, Loopback: true, Resolver: names})
	prepare(t, looped, h.ref("a:1"))
	refused(t, looped, "meta.example:"+port+"a:1", insideWords) // only loopback is permitted there
}

// ownIPv4 returns the node's addresses except loopback.
func ownIPv4(t *testing.T) (own []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if of, err := netip.ParsePrefix(a.String()); err == nil && of.Addr().Is4() && !of.Addr().IsLoopback() {
			own = append(own, of.Addr().String())
		}
	}
	return own
}

// TestDetoursInsideAreRefused checks a permitted registry that sends the agent to a forbidden service, by a redirection
// or for a token.
func TestDetoursInsideAreRefused(t *testing.T) {
	h, victim := newHub(t), newHub(t)
	h.push("a:1", imageOf(t, v1.Config{}, layerOf(t, "x", "y")))
	allowed := strings.TrimSuffix(h.ref(""), "/")
	only := func(host string) bool { return host == allowed }
	names := resolving(map[string]string{"evil.example.": "127.0.0.1"})
	_, port, _ := strings.Cut(strings.TrimSuffix(victim.ref(""), "/"), ":")
	named := "https://evil.example:" + port
	redirects := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+"/metadata", http.StatusTemporaryRedirect)
		}
	}
	for what, do := range map[string]http.HandlerFunc{
		"a redirection":           redirects(victim.server.URL),
		"a redirection to a name": redirects(named),
		"a token's realm": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=x", named+"/token"))
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		for _, path := range []string{"/v2/", "/manifests/", "/blobs/"} {
			if what == "a token's realm" && path != "/v2/" {
				continue // only the first request asks for it
			}
			method := http.MethodGet
			h.disturbed(method, path, do)
			store, _ := open(t, image.Options{Inside: only, Resolver: names})
			refused(t, store, h.ref("a:1"), insideWords)
			if n := victim.requests("", ""); n != 0 {
				t.Errorf("%s at %s: %d requests arrived inside", what, path, n)
			}
		}
	}
}

// TestNamesAreLookedUpOnce checks a name whose first lookup returns a permitted address and whose second lookup returns
// a forbidden one. The checked address is also the dialed one.
func TestNamesAreLookedUpOnce(t *testing.T) {
	h := newHub(t)
	h.push("a:1", imageOf(t, v1.Config{}, layerOf(t, "x", "y")))
	h.requests("", "")
	port := h.ref("")[strings.LastIndex(h.ref(""), ":")+1:]
	// 240.0.0.1 is an address that no host has and no kernel sends to, so the first dial fails at once.
	store, _ := open(t, image.Options{Inside: nobody, Resolver: resolving(map[string]string{
		"evil.example.": "240.0.0.1 127.0.0.1",
	})})
	for range 4 {
		if _, err := store.Prepare(t.Context(), "evil.example:"+port+"a:1", t.TempDir(), own); err == nil {
			t.Error("it was prepared")
		}
	}
	if n := h.requests("", ""); n != 0 {
		t.Errorf("%d requests arrived inside", n)
	}
}

// resolving returns a resolver whose names have these addresses, one after the other, and then always the last one.
func resolving(names map[string]string) *net.Resolver {
	asked := map[string]int{}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			var size [2]byte
			if _, err := io.ReadFull(theirs, size[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(theirs, question); err != nil {
				return
			}
			answer := answerTo(question, func(name string) string {
				all := strings.Fields(names[name])
				if len(all) == 0 {
					return ""
				}
				asked[name]++
				return all[min(asked[name], len(all))-1]
			})
			_, _ = theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}()
		return ours, nil
	}}
}

// answerTo returns a name server's answer to an IPv4 query.
func answerTo(question []byte, of func(string) string) []byte {
	name, at := "", 12
	for question[at] != 0 {
		name += string(question[at+1:at+1+int(question[at])]) + "."
		at += 1 + int(question[at])
	}
	kind, end := binary.BigEndian.Uint16(question[at+1:]), at+5
	head := append(append([]byte{}, question[:2]...), 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	answer := append(head, question[12:end]...)
	if kind != 1 {
		return answer
	}
	address, err := netip.ParseAddr(of(name))
	if err != nil {
		return answer
	}
	answer[7] = 1
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(answer, address.AsSlice()...)
}
