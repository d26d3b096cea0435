// Package described reads the discovery document of an OpenID Connect issuer. It refuses unencrypted connections,
// and a document that names another issuer. It does not handle tokens.
package described

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

const (
	// WellKnown is the path of the discovery document below the issuer's URL.
	WellKnown = "/.well-known/openid-configuration"
	// MaxAnswer limits the size of an answer.
	MaxAnswer = 1 << 20
)

// Description holds the endpoints of an issuer. Unsupported ones are empty.
type Description struct {
	Issuer      string `json:"issuer"`
	Keys        string `json:"jwks_uri"`
	Tokens      string `json:"token_endpoint"`
	Device      string `json:"device_authorization_endpoint"`
	Revocations string `json:"revocation_endpoint"`
}

// Ask reads the discovery document of an issuer.
func Ask(ctx context.Context, client *http.Client, issuer string) (d Description, err error) {
	if err := CheckURL(issuer); err != nil {
		return d, err
	}
	if err := Get(ctx, client, strings.TrimSuffix(issuer, "/")+WellKnown, &d); err != nil {
		return d, err
	}
	if d.Issuer != issuer {
		return d, fmt.Errorf("%s identifies itself as %.200q", issuer, d.Issuer)
	}
	for _, at := range []string{d.Keys, d.Tokens, d.Device, d.Revocations} {
		if at == "" {
			continue
		}
		if err := CheckURL(at); err != nil {
			return d, fmt.Errorf("description of %s: %w", issuer, err)
		}
	}
	return d, nil
}

// Get reads a JSON document from a URL.
func Get(ctx context.Context, client *http.Client, at string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	if status, err := Answer(client, request, into); err != nil || status == http.StatusOK {
		return err
	}
	return fmt.Errorf("%s: request rejected", at)
}

// Answer sends a request and reads the JSON answer. It returns a 4xx status with the answer, which contains the
// reason. Any other failure is an error.
func Answer(client *http.Client, request *http.Request, into any) (status int, err error) {
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	const wrong = 4 // hundreds: a 4xx status
	if status = answer.StatusCode; status != http.StatusOK && status/100 != wrong {
		return 0, fmt.Errorf("%s answers %s", request.URL, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	if err == nil && len(text) > MaxAnswer {
		err = fmt.Errorf("answer is larger than %d bytes", MaxAnswer)
	}
	if err == nil && len(text) > 0 { // a revocation is answered by its status alone
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return 0, fmt.Errorf("%s answers %s: %w", request.URL, answer.Status, err)
	}
	return status, nil
}

// Client returns an HTTP client for issuers, which does not follow redirects.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CheckURL refuses insecure URLs. It accepts https, and plain http on loopback.
func CheckURL(text string) error {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return fmt.Errorf("%.200q must be a URL such as https://id.example.org/realms/lab, without a query or a "+
			"password", text)
	case at.Scheme == "https":
		return nil
	}
	ip, err := netip.ParseAddr(at.Hostname())
	if at.Scheme != "http" || err != nil || !ip.IsLoopback() {
		return fmt.Errorf("%.200q must begin with https:// (http:// only for a loopback address)", text)
	}
	return nil
}
