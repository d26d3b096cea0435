package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/test/spiffe"
)

// This file owns the tests of certificates of an outside issuer.

const domainA = "a.example"

// idsOfA maps IDs to identities in the tests' cluster.
const idsOfA = `
ids:
  - {id: "spiffe://a.example/people/ada", role: admin, name: ada}
  - {id: "spiffe://a.example/people/{name}", role: submitter}
  - {id: "spiffe://a.example/synapse/scheduler/{name}", role: scheduler}
  - {id: "spiffe://a.example/*/node/{name}", role: node, bounds: {gpus: "8"}}
`

const filesOfA = "cluster: c-a\ncert: svid.pem\nkey: svid_key.pem\nbundle: bundle.pem\n"

// external returns the files of a party whose certificate an issuer signed.
func external(t *testing.T, by *spiffe.Issuer, one spiffe.SVID) *External {
	t.Helper()
	dir := t.TempDir()
	by.Write(dir, one)
	by.Put(dir, "tls.yaml", []byte(filesOfA+idsOfA))
	return must(OpenExternal(filepath.Join(dir, "tls.yaml"), strict))
}

// trustOf returns the party's trust, with a clock that shows today.
func trustOf(x *External) *Trust {
	trust := x.Trust()
	trust.Now = func() time.Time { return today }
	return trust
}

// TestExternalEndsLearnWho checks that both ends get the configured identity of the other, with keys of any type.
func TestExternalEndsLearnWho(t *testing.T) {
	by := spiffe.New(t, domainA, today)
	serves := external(t, by, by.Sign("spiffe://a.example/synapse/scheduler/s1", nil))
	long := must(rsa.GenerateKey(rand.Reader, 2048))
	for id, want := range map[string]string{
		"spiffe://a.example/people/ada":             "synapse://c-a/admin/ada",
		"spiffe://a.example/people/ann":             "synapse://c-a/submitter/ann",
		"spiffe://a.example/rack-7/node/n17":        "synapse://c-a/node/n17",
		"spiffe://a.example/synapse/scheduler/main": "synapse://c-a/scheduler/main",
	} {
		x := external(t, by, by.SignKey(id, long, nil))
		serves.config.LocalUsers = strings.HasSuffix(id, "/ann")
		var m met
		server, client := ends(trustOf(serves), serves.Pair(), trustOf(x), x.Pair(), &m)
		got := meet(t, server, client)
		if got.client != nil || got.server != nil || got.heard != 1 {
			t.Fatalf("%s: %v, %v", id, got.client, got.server)
		}
		if m.seenClient.String() != want || m.seenServer.String() != "synapse://c-a/scheduler/s1" ||
			x.Identity().String() != want {
			t.Errorf("%s is %s at the server, which is %s", id, m.seenClient, m.seenServer)
		}
		if m.seenClient.LocalUser != serves.config.LocalUsers {
			t.Errorf("%s counts as an account: %v", id, m.seenClient.LocalUser)
		}
		if bound := m.seenClient.Bounds[BoundGPUs]; (bound == "8") != (m.seenClient.Role == RoleNode) {
			t.Errorf("%s: GPUs are bound to %q", id, bound)
		}
	}
}

// TestExternalRefused checks that the scheduler refuses a stranger, and reads no application data from it.
func TestExternalRefused(t *testing.T) {
	by, other, ours := spiffe.New(t, domainA, today), spiffe.New(t, domainA, today), newRealm(t, "c-a")
	serves := external(t, by, by.Sign("spiffe://a.example/synapse/scheduler/s1", nil))
	const node = "spiffe://a.example/rack-7/node/n17"
	stolen := by.Sign(node, nil)
	trust := trustOf(serves)
	trust.Denied = must(NewDenylist("synapse://c-a/submitter/eve", "serial:"+stolen.Serial()))
	changed := func(change func(*x509.Certificate)) spiffe.SVID { return by.Sign(node, change) }
	more := func(uris ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.URIs = nil
			for _, one := range uris {
				c.URIs = append(c.URIs, must(url.Parse(one)))
			}
		}
	}
	var late *TimeError
	for name, of := range map[string]struct {
		shows spiffe.SVID
		want  any
	}{
		"another issuer of the name":  {other.Sign(node, nil), ErrUnknown},
		"another domain's id":         {by.Sign("spiffe://b.example/rack-7/node/n17", nil), ErrUnmapped},
		"an id that nobody mentioned": {by.Sign("spiffe://a.example/rack-7/node", nil), ErrUnmapped},
		"an id below another":         {by.Sign(node+"/x", nil), ErrUnmapped},
		"the domain itself":           {by.Sign("spiffe://a.example", nil), "invalid ID"},
		"an escape":                   {by.Sign("spiffe://a.example/rack-7/node/n%2f17", nil), "each segment must have"},
		"a port":                      {by.Sign("spiffe://a.example:1/rack-7/node/n17", nil), "the trust domain must have"},
		"a query":                     {by.Sign(node+"?x=1", nil), "each segment must have"},
		"a name of ours":              {by.Sign("synapse://c-a/admin/ada", nil), "invalid ID"},
		"a name that nobody may have": {by.Sign("spiffe://a.example/people/anonymous", nil), "use another name"},
		"two ids":                     {changed(more(node, node)), errNames},
		"no id":                       {changed(more()), errNames},
		"over":                        {changed(func(c *x509.Certificate) { c.NotAfter = today.Add(-time.Second) }), &late},
		"not yet":                     {changed(func(c *x509.Certificate) { c.NotBefore = today.Add(time.Minute) }), &late},
		"for servers only":            {changed(forServers), ErrRole},
		"an authority":                {changed(func(c *x509.Certificate) { c.IsCA = true }), ErrUnknown},
		"one that may sign": {changed(func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }),
			ErrUnknown},
		"our own authority's": {spiffe.SVID(*ours.pair(RoleAdmin, "ada")), ErrUnknown},
		"a denied serial":     {stolen, ErrDenied},
		"a denied name":       {by.Sign("spiffe://a.example/people/eve", nil), ErrDenied},
	} {
		var m met
		pair := Pair(of.shows)
		server, _ := ends(trust, serves.Pair(), trust, &pair, &m)
		got := meet(t, server, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*pair.TLS()}})
		right := false
		switch want := of.want.(type) {
		case error:
			right = errors.Is(got.server, want)
		case string:
			right = got.server != nil && strings.Contains(got.server.Error(), want)
		case **TimeError:
			right = errors.As(got.server, want)
		}
		if !right || got.heard != 0 || m.seenClient.Name != "" {
			t.Errorf("%s: %v (received %d, seen as %q), want %v", name, got.server, got.heard, m.seenClient.Name, of.want)
		}
	}
}

// TestExternalScheduler checks that a client sends neither data nor its certificate to a server that is not configured
// as a scheduler.
func TestExternalScheduler(t *testing.T) {
	by, other := spiffe.New(t, domainA, today), spiffe.New(t, domainA, today)
	dials := external(t, by, by.Sign("spiffe://a.example/people/ada", nil))
	for name, of := range map[string]struct {
		shows spiffe.SVID
		want  error
	}{
		"a machine":        {by.Sign("spiffe://a.example/rack-7/node/n17", nil), ErrRole},
		"a person":         {by.Sign("spiffe://a.example/people/ada", nil), ErrRole},
		"another issuer":   {other.Sign("spiffe://a.example/synapse/scheduler/s1", nil), ErrUnknown},
		"nobody":           {by.Sign("spiffe://a.example/web/front", nil), ErrUnmapped},
		"the issuer":       {spiffe.SVID{Key: dials.Pair().Key, Chain: dials.Pair().Chain[1:]}, nil},
		"a known one":      {by.Sign("spiffe://a.example/synapse/scheduler/s1", nil), errAccepted},
		"one of ourselves": {spiffe.SVID(*newRealm(t, "c-a").pair(RoleScheduler, "s1")), ErrUnknown},
	} {
		shown := false
		pair := Pair(of.shows)
		server := &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, ClientAuth: tls.RequireAnyClientCert,
			VerifyConnection: func(tls.ConnectionState) error { shown = true; return nil }}
		got := meet(t, server, trustOf(dials).ClientConfig(dials.Pair, nil))
		if errors.Is(of.want, errAccepted) {
			if got.client != nil || !shown {
				t.Errorf("%s: %v", name, got.client)
			}
			continue
		}
		if got.client == nil || of.want != nil && !errors.Is(got.client, of.want) || shown || got.heard != 0 {
			t.Errorf("%s: %v (our certificate was shown: %v), want %v", name, got.client, shown, of.want)
		}
	}
}

// TestExternalRotates checks that a replaced certificate is used from the next handshake on. Files that do not match
// each other, or that contain another ID, change nothing. A bundle without the old root ends what it had signed.
func TestExternalRotates(t *testing.T) {
	by, id := spiffe.New(t, domainA, today), "spiffe://a.example/synapse/scheduler/s1"
	x := external(t, by, by.Sign(id, nil))
	dir := filepath.Dir(x.path)
	refresh := func(changed bool, words string) {
		t.Helper()
		got, err := x.Refresh()
		if got != changed || (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Fatalf("changed %v (%v), want %v and %q", got, err, changed, words)
		}
	}
	serial := func(one spiffe.SVID) bool { return x.Pair().Leaf().SerialNumber.Text(16) == one.Serial() }
	first := x.Pair().Leaf()
	refresh(false, "")

	second := by.Sign(id, nil)
	half := t.TempDir()
	by.Write(half, second)
	by.Put(dir, "svid.pem", must(os.ReadFile(filepath.Join(half, "svid.pem"))))
	refresh(false, "cert and key:") // the key follows a moment later
	if !x.Pair().Leaf().Equal(first) {
		t.Error("half a rotation is shown")
	}
	by.Put(dir, "svid_key.pem", must(os.ReadFile(filepath.Join(half, "svid_key.pem"))))
	refresh(true, "")
	refresh(false, "")
	if !serial(second) {
		t.Error("the new certificate is not shown")
	}

	by.Write(dir, by.Sign("spiffe://a.example/synapse/scheduler/s2", nil))
	refresh(false, "instead of synapse://c-a/scheduler/s1")
	by.Put(dir, "bundle.pem", []byte("nothing"))
	refresh(false, "contains no certificate")
	by.Write(dir, second)
	if err := os.Remove(filepath.Join(dir, "svid.pem")); err != nil {
		t.Fatal(err)
	}
	refresh(false, "no such file")
	if !serial(second) {
		t.Error("a mistake is shown")
	}

	trust := trustOf(x)
	node := must(trust.verify(by.Sign("spiffe://a.example/rack-7/node/n17", nil).Chain, x509.ExtKeyUsageClientAuth, 0))
	by.Write(dir, second)
	refresh(false, "")
	if err := trust.Recheck(node, node.Until); err != nil {
		t.Error(err)
	}
	next := spiffe.New(t, domainA, today)
	next.Write(dir, next.Sign(id, nil))
	refresh(true, "")
	if err := trust.Recheck(node, node.Until); !errors.Is(err, ErrUnknown) {
		t.Errorf("whom the old root signed stays: %v", err)
	}
}

// TestExternalConfig checks that an error in the configuration file names the place and the fix.
func TestExternalConfig(t *testing.T) {
	by := spiffe.New(t, domainA, today)
	dir := t.TempDir()
	by.Write(dir, by.Sign("spiffe://a.example/people/ada", nil))
	ids := func(entries ...string) string { return filesOfA + "ids:\n- " + strings.Join(entries, "\n- ") + "\n" }
	const scheduler = `{id: "spiffe://a.example/s", role: scheduler, name: s1}`
	second := func(id, rest string) string { return ids(scheduler, `{id: "`+id+`", `+rest+`}`) }
	const n = "spiffe://a.example/n"
	shadowed := second("spiffe://a.example/{name}", "role: node") + `- {id: "` + n + `", role: admin, name: ada}`
	for text, words := range map[string]string{
		filesOfA + idsOfA: "",

		"":                                 `cluster: cluster name ""`,
		"[]":                               "keys must be cluster, cert, key, bundle and ids",
		"cluster: c-a\nkeys: x":            "field keys not found",
		"cluster: c-a\nkey: k\nbundle: b":  "cert: is missing: set it to the PEM file of the own certificate",
		"cluster: c-a\ncert: k\nbundle: b": "key: is missing",
		"cluster: c-a\ncert: k\nkey: b":    "bundle: is missing: set it to the PEM file of the issuer's roots",
		filesOfA:                           "ids: has 0 entries: needs",

		ids(`{id: "spiffe://a.example/{name}", role: admin}`): "every scheduler would be refused",

		second("https://a.example/x", "role: node"):                `ids[1]: id: invalid ID "https://a.example/x"`,
		second("spiffe://A.example/x", "role: node"):               "the trust domain must have a-z",
		second("spiffe://a.example/x/", "role: node"):              "each segment must have letters",
		second("spiffe://a.example/n-{name}", "role: node"):        "in the file be {name} or *",
		second("spiffe://a.example/{name}/{name}", "role: node"):   "{name} more than once",
		second("spiffe://a.example/{name}", "role: node, name: n"): "remove one of them",
		second("spiffe://b.example/n", "role: node, name: n"):      "another trust domain than ids[0]",

		second(n, "role: node"):                                 "ids[1]: name: is missing: set it",
		second(n, "role: king, name: k"):                        `ids[1]: role: unknown role "king": use one of`,
		second(n, "role: ca, name: k"):                          `ids[1]: role: unknown role "ca"`,
		second(n, "role: node, name: n 1"):                      `ids[1]: name: name "n 1" must have`,
		second(n, `role: viewer, name: v, bounds: {gpus: "1"}`): "only role node can have them",
		second(n, `role: node, name: v, bounds: {gpus: "x"}`):   `bounds: --gpus "x"`,

		shadowed: "ids[2]: id: spiffe://a.example/n never matches, because ids[1] comes first",

		ids(scheduler): "svid.pem: no entry under ids matches the ID: spiffe://a.example/people/ada",

		strings.Replace(filesOfA, "svid.pem", "no.pem", 1) + idsOfA: "cert: stat",
	} {
		by.Put(dir, "tls.yaml", []byte(text))
		_, err := OpenExternal(filepath.Join(dir, "tls.yaml"), strict)
		if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", text, err, words)
		}
	}
	by.Put(dir, "tls.yaml", []byte(filesOfA+idsOfA))
	if err := os.Chmod(filepath.Join(dir, "svid_key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := OpenExternal(filepath.Join(dir, "tls.yaml"), strict)
	if err == nil || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("a key that others read: %v", err)
	}
}

// yamlBlocks matches the examples of a page.
var yamlBlocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExternalPageIsTrue checks that the example of docs/operate/spiffe.md is a valid file with the described
// identities.
func TestExternalPageIsTrue(t *testing.T) {
	page := string(must(os.ReadFile("../../docs/operate/spiffe.md")))
	_, section, _ := strings.Cut(page, "## Configure\n")
	block := yamlBlocks.FindStringSubmatch(section)
	if block == nil {
		t.Fatal("docs/operate/spiffe.md has no example below \"Configure\"")
	}
	c, err := readExternal([]byte(block[1]), strict)
	if err != nil {
		t.Fatal(err)
	}
	by := spiffe.New(t, "example.org", today)
	for id, want := range map[string]string{
		"spiffe://example.org/synapse/scheduler/head1": "synapse://research/scheduler/head1",
		"spiffe://example.org/synapse/node/n17":        "synapse://research/node/n17",
		"spiffe://example.org/people/ada":              "synapse://research/admin/ada",
		"spiffe://example.org/people/ann":              "synapse://research/submitter/ann",
		"spiffe://example.org/ns/ci/sa/nightly":        "synapse://research/submitter/ci",
	} {
		got, _, err := c.who(by.Sign(id, nil).Chain[0])
		if err != nil || got.String() != want {
			t.Errorf("%s is %s (%v), want %s", id, got, err, want)
		}
	}
}

// FuzzExternalIDs checks that an ID matches only its own pattern, and that an ID has only one written form. There are
// two exceptions: upper-case letters in the scheme, and an empty fragment. The certificate parser normalizes both
// before Synapse sees the ID. Only the issuer can write them, and the issuer is trusted with all IDs.
func FuzzExternalIDs(f *testing.F) {
	for _, id := range []string{"spiffe://a.example/people/ada", "spiffe://a.example/x/node/n1", "spiffe://a/%61",
		"spiffe://"} {
		f.Add(id)
	}
	c := must(readExternal([]byte(filesOfA+idsOfA), strict))
	f.Fuzz(func(t *testing.T, id string) {
		where, err := url.Parse(id)
		if err != nil {
			return
		}
		who, _, err := c.who(&x509.Certificate{URIs: []*url.URL{where}})
		if err != nil {
			return
		}
		scheme, rest, _ := strings.Cut(strings.TrimSuffix(id, "#"), ":")
		if where.String() != strings.ToLower(scheme)+":"+rest || where.Host != domainA ||
			where.RawQuery+where.Fragment != "" || who.Check() != nil {
			t.Errorf("%q is %s", id, who)
		}
		if strings.HasSuffix(id, "/people/ada") != (who.Role == RoleAdmin) {
			t.Errorf("%q is %s", id, who)
		}
	})
}

// strict decodes like the function of package credential.
func strict(text []byte, into any) error {
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	return from.Decode(into)
}
