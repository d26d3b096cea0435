//go:build linux

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// This file makes requests to registries and explains their failures.

// registry is a source in a registry's repository.
type registry struct {
	repository name.Repository
	puller     *remote.Puller
}

func (r registry) open(ctx context.Context, wanted v1.Descriptor) (io.ReadCloser, error) {
	if wanted.MediaType.IsIndex() || wanted.MediaType.IsImage() {
		manifest, err := r.puller.Get(ctx, r.repository.Digest(wanted.Digest.String()))
		if err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader(string(manifest.Manifest))), nil
	}
	layer, err := r.puller.Layer(ctx, r.repository.Digest(wanted.Digest.String()))
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

func (s *Store) openRegistry(ref reference) (registry, error) {
	puller, err := remote.NewPuller(
		remote.WithTransport(plainOnlyNearby{s.o.Transport}), remote.WithAuthFromKeychain(s.o.Keychain),
		remote.WithUserAgent("synapse"),
	)
	return registry{ref.registry.Context(), puller}, err
}

// digest requests the current digest of a tag. Registries that count fetches do not count this request.
func (r registry) digest(ctx context.Context, ref reference) (string, error) {
	if exact := ref.digest(); exact != "" {
		return exact, nil
	}
	head, err := r.puller.Head(ctx, ref.registry)
	if err != nil {
		return "", err
	}
	return head.Digest.String(), nil
}

func (r registry) resolve(ctx context.Context, ref reference) (*found, error) {
	document, err := r.puller.Get(ctx, ref.registry)
	if err != nil {
		return nil, err
	}
	if exact := ref.digest(); exact != "" && exact != document.Digest.String() {
		return nil, fmt.Errorf("%s: %w", exact, errTampered)
	}
	return resolve(ctx, r, document.Manifest, document.MediaType, document.Digest, "")
}

// plainOnlyNearby permits plaintext only to this host, also for redirections and logins. Without TLS, names and tags
// can be forged and passwords can be read.
type plainOnlyNearby struct{ next http.RoundTripper }

var errPlain = errors.New("plaintext is permitted only to this host itself; enable TLS on the registry")

func (p plainOnlyNearby) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !isLoopback(request.URL.Hostname()) {
		return nil, fmt.Errorf("%s: %w", request.URL.Host, errPlain)
	}
	return p.next.RoundTrip(request)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// explain returns an error for the author of the job.
func explain(ctx context.Context, ref reference, err error) error {
	said := new(transport.Error)
	where := ref.text
	switch {
	case errors.Is(err, errTampered):
		return problem("%s: %w; push or build the image again", where, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return problem("%s: the time to prepare ran out; raise prepareTimeout, or use a closer registry: %w",
			where, ctx.Err())
	case ctx.Err() != nil:
		return problem("%s: %w", where, ctx.Err())
	case errors.As(err, &said) && (said.StatusCode == http.StatusUnauthorized || said.StatusCode == http.StatusForbidden):
		return problem("%s: the registry %s refuses access from this node; log in there as the agent's user (docker "+
			"login), or check the name: %w", where, ref.registry.Context().RegistryStr(), err)
	case errors.As(err, &said) && said.StatusCode == http.StatusNotFound:
		return problem("%s: the registry %s does not have this image; check the name and the tag: %w",
			where, ref.registry.Context().RegistryStr(), err)
	case errors.Is(err, errInside):
		return problem("%s: %w", where, err)
	case ref.kind == kindRegistry && isUnreachable(err):
		return problem("%s: the registry %s cannot be reached: %w; use the image's digest, so that nodes that "+
			"have the image need no registry", where, ref.registry.Context().RegistryStr(), err)
	}
	return problem("%s: %w", where, err)
}

func isUnreachable(err error) bool {
	dial := new(net.OpError)
	lookup := new(net.DNSError)
	return !errors.Is(err, errPlain) && (errors.As(err, &dial) || errors.As(err, &lookup))
}

// keychain reads the docker configuration of the agent's user, with its credential helpers.
var keychain authn.Keychain = authn.DefaultKeychain
