// Package described reads how an issuer of OpenID Connect describes itself: where it has what. It believes no issuer
// that is asked in the clear, or that says that it is another one, and knows nothing of tokens.
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
	// WellKnown is where an issuer describes itself, behind its own address.
	WellKnown = "/.well-known/openid-configuration"
	// MaxAnswer bounds an answer.
	MaxAnswer = 1 << 20
)

// Description says where an issuer has what; what it does not have is empty.
type Description struct {
	Issuer      string `json:"issuer"`
	Keys        string `json:"jwks_uri"`
	Tokens      string `json:"token_endpoint"`
	Device      string `json:"device_authorization_endpoint"`
	Revocations string `json:"revocation_endpoint"`
}

// Ask reads an issuer's description.
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

// Get reads what is at an address.
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

// Answer sends a request and reads its answer. A status that says that the request is wrong is handed on: the answer
// says how. Any other that is not good is an error.
func Answer(client *http.Client, request *http.Request, into any) (status int, err error) {
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	const wrong = 4 // hundred and more
	if status = answer.StatusCode; status != http.StatusOK && status/100 != wrong {
		return 0, fmt.Errorf("%s answers %s", request.URL, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	if err == nil && len(text) > MaxAnswer {
		err = fmt.Errorf("answer is larger than %d bytes", MaxAnswer)
	}
	if err == nil && len(text) > 0 { // that a token is revoked is all said by the status
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return 0, fmt.Errorf("%s answers %s: %w", request.URL, answer.Status, err)
	}
	return status, nil
}

// Client asks issuers: whoever is asked answers, nobody is redirected to somebody else.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CheckURL refuses what is no place to ask in secret: https, or plain http on the loopback, where nobody is between.
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
