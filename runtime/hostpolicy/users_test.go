package hostpolicy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/topology"
)

// node is a test node with its own accounts: ann and zoe are plain, bob is in sudo, the primary group of eve is docker,
// job has a uid of --uids, and low is a service.
func node(t *testing.T, u Users) Users {
	t.Helper()
	u.root, u.Proven = t.TempDir(), true
	u.UIDs = topology.UIDRange{First: 20000, Last: 20999}
	for path, text := range map[string]string{
		passwdFile: "root:x:0:0::/root:/bin/sh\nlow:x:900:900::/:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n" +
			"bob:x:1002:1002::/:/bin/sh\neve:x:1003:99::/:/bin/sh\njob:x:20001:20001::/:/bin/sh\n" +
			"zoe:x:1005:1005::/:/bin/sh\nzoe:x:0:0::/:/bin/sh\nhid:x:1006:0::/:/bin/sh\nbroken\n",
		groupFile: "root:x:0:\nsudo:x:27:max,bob\ndocker:x:99:\nann:x:1001:\nbroken\n",
	} {
		path = filepath.Join(u.root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// TestUsers checks that the first matching rule decides, and that every refusal is the job's fault.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an agent that is not root runs all jobs as itself")
	}
	plain := node(t, Users{})
	mapped := node(t, Users{Owners: map[string]string{"ann": "nobody"}})
	open := node(t, Users{Owners: map[string]string{"ann": "nobody"}, Any: true})
	tight := node(t, Users{DenyGroups: []string{"ann"}})
	noTLS := Users{Owners: map[string]string{"ann": "nobody"}}
	const refused = "!"
	for _, c := range []struct {
		u           Users
		owner       string
		proven      bool
		named, want string
		says        string
	}{
		// 1: users.owners, named or not, proven by this cluster or by an issuer.
		{u: mapped, owner: "ann", named: "", want: "nobody"}, {u: mapped, owner: "ann", named: "nobody", want: "nobody"},
		{u: mapped, owner: "ann", named: "65534:7", want: "65534:7"}, {u: mapped, owner: "ann", named: "me", want: "nobody"},
		{u: mapped, owner: "ann", named: "ann", want: "nobody"}, {u: mapped, owner: "ann", named: "root", want: refused},
		{u: mapped, owner: "ann", proven: true, named: "zoe", want: refused, says: "run as nobody"},
		{u: mapped, owner: "ann", proven: true, named: "me:27", want: refused},
		{u: open, owner: "ann", proven: true, named: "zoe", want: refused},
		// 2: no user, and root of the job's own container.
		{u: plain, owner: "bob", named: "", want: ""}, {u: plain, owner: "bob", named: "root", want: "root"},
		{u: plain, owner: "bob", named: "0", want: "0"}, {u: mapped, owner: "zoe", named: "", want: ""},
		// 3: the owner's own account.
		{u: plain, owner: "ann", proven: true, named: "me", want: "ann"},
		{u: plain, owner: "ann", proven: true, named: "ann", want: "ann"},
		{u: plain, owner: "ann", proven: true, named: "me:1001", want: "ann:1001"},
		{u: mapped, owner: "zoe", proven: true, named: "me", want: "zoe"},
		{u: plain, owner: "ann", named: "me", want: refused, says: "not proven"},
		{u: plain, owner: "ann", named: "ann", want: refused, says: "not proven"},
		{u: plain, owner: "max", proven: true, named: "me", want: refused, says: "no account max"},
		{u: plain, owner: "1001", proven: true, named: "me", want: refused, says: "no account 1001"},
		{u: plain, owner: "ann:27", proven: true, named: "me", want: refused},
		{u: plain, owner: "root", proven: true, named: "me", want: refused, says: "users.from"},
		{u: plain, owner: "low", proven: true, named: "me", want: refused, says: "users.from"},
		{u: plain, owner: "job", proven: true, named: "me", want: refused, says: "jobs that name no user"},
		{u: plain, owner: "bob", proven: true, named: "me", want: refused, says: "group sudo"},
		{u: plain, owner: "eve", proven: true, named: "me", want: refused, says: "group docker"},
		{u: plain, owner: "hid", proven: true, named: "me", want: refused, says: "group root"},
		{u: tight, owner: "ann", proven: true, named: "me", want: refused, says: "group ann"},
		{u: tight, owner: "bob", proven: true, named: "me", want: "bob"},
		// 4: any other user, only with users.any.
		{u: plain, owner: "ann", proven: true, named: "zoe", want: refused, says: "users.owners"},
		{u: plain, owner: "ann", proven: true, named: "1001", want: refused},
		{u: plain, owner: "", named: "zoe", want: refused},
		{u: open, owner: "zoe", named: "bob", want: "bob"}, {u: open, owner: "bob", proven: true, named: "bob", want: "bob"},
		{u: open, owner: "zoe", named: "me", want: refused, says: "not proven"},
		// Without TLS, owners are not proven.
		{u: noTLS, owner: "ann", named: "zoe", want: "zoe"}, {u: noTLS, owner: "ann", named: "", want: ""},
		{u: noTLS, owner: "ann", named: "me", want: refused, says: "without TLS"},
	} {
		got, err := c.u.User(c.owner, c.proven, c.named)
		if err != nil {
			got = refused
		}
		if got != c.want || (c.want == refused) != (fault.Of(err) == fault.Job) {
			t.Errorf("%q (proven: %v) as %q: %q, %v; want %q", c.owner, c.proven, c.named, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q as %q: %v; want %q in it", c.owner, c.named, err, c.says)
		}
	}
}

// TestListed checks that the published list agrees with the decisions, and that a new account is listed.
func TestListed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an agent that is not root runs all jobs as itself")
	}
	u := node(t, Users{Owners: map[string]string{"max": "nobody"}})
	l := NewLister(u)
	first := l.Now()
	if want := []string{"ann", "zoe"}; !slices.Equal(first.Own, want) || first.Any || first.More {
		t.Errorf("listed %v, want %v", first, want)
	}
	if m := first.Mapped; len(m) != 1 || m[0].Owner != "max" || m[0].Account != "nobody" || m[0].Uid != 65534 {
		t.Errorf("mapped: %v", m)
	}
	for _, name := range []string{"root", "low", "ann", "bob", "eve", "job", "zoe", "hid", "max"} {
		_, err := u.User(name, true, "me")
		if listed := slices.Contains(first.Own, name) || name == "max"; listed != (err == nil) {
			t.Errorf("%s is listed: %v, and decided: %v", name, listed, err)
		}
	}
	if l.look(); l.Now() != first {
		t.Error("the same accounts are another message")
	}
	path := filepath.Join(u.root, passwdFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "new:x:1010:1010::/:/bin/sh\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if l.look(); !slices.Contains(l.Now().Own, "new") {
		t.Errorf("the new account is not listed: %v", l.Now())
	}
	for _, open := range []Users{node(t, Users{Any: true}), {}} {
		if said := open.Listed(); !said.Any || proto.Size(said) > 100 {
			t.Errorf("%v says %v", open, said)
		}
	}
	if err := os.Remove(filepath.Join(u.root, groupFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(u.root, groupFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := u.User("ann", true, "me"); err == nil {
		t.Error("an account is good though the groups cannot be read")
	}
}
