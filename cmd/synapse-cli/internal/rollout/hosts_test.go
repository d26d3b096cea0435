package rollout

import (
	"strings"
	"testing"
)

// TestHosts checks the names, ssh destinations and settings that are read from a file of nodes.
func TestHosts(t *testing.T) {
	hosts, err := ReadHosts("hosts.yaml", []byte(`
settings: {join: "10.0.0.7:9000", labels: join, health: {gpus: {check: gpus}}}
nodes:
  n1: {ssh: root@10.0.0.11, settings: {labels: pool=b, topology: "rack=r1", tls: /etc/key}}
  n[08-10]: {ssh: "admin@{name}.cluster"}
  n41:
  "7": {settings: {data-dir: /srv/node}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, h := range hosts {
		said = append(said, h.Name+" "+h.Ssh+" "+h.KeyFolder())
	}
	want := "n1 root@10.0.0.11 /etc/key, n08 admin@n08.cluster /var/lib/synapse-node/tls, n09 admin@n09.cluster " +
		"/var/lib/synapse-node/tls, n10 admin@n10.cluster /var/lib/synapse-node/tls, n41 n41 /var/lib/synapse-node/tls, " +
		"7 7 /srv/node/tls"
	if got := strings.Join(said, ", "); got != want {
		t.Errorf("%s", got)
	}
	text, err := hosts[0].File(true)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), ".\nid")
	if body != ": n1\ntoken: /etc/synapse/token\njoin: \"10.0.0.7:9000\"\nlabels: pool=b\n"+
		"health: {gpus: {check: gpus}}\ntopology: \"rack=r1\"\ntls: /etc/key\n" {
		t.Errorf("%s", text)
	}
	if text, _ = hosts[5].File(false); !strings.Contains(string(text), "\nid: \"7\"\njoin: ") {
		t.Errorf("%s", text)
	}
}

// TestHostsRefused checks that all errors in a file are reported with their lines.
func TestHostsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "no node is listed",
		"nodes: {}":                            "no node is listed",
		"- n1":                                 "line 1: the file: must be keys and values",
		"node: {n1: }":                         `the file: unknown key node; did you mean "nodes"?`,
		"nodes: {n1: {shs: x}}":                "machine n1: unknown key shs",
		"nodes: {n1: , n1: }":                  "nodes: duplicate key n1",
		"nodes: {\"n[1-2]\": , n2: }":          "duplicate node n2",
		"nodes: {\"n[2-1]\": }":                `"n[2-1]" is neither a node name nor a list`,
		"nodes: {\"n[1-2]\": {ssh: root@x}}":   "ssh is the same for all nodes of the list; write {name}",
		"nodes: {n1: {ssh: -oProxyCommand=x}}": "ssh must be an ssh destination",
		"nodes: {n1: {settings: [a]}}":         "settings: must be keys and values",
		"settings: {id: x}\nnodes: {n1: {settings: {token: y}}}": "line 1: settings: id is not allowed",
	} {
		if _, err := ReadHosts("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := ReadHosts("f", []byte("settings: {id: x}\nnodes: {n1: {settings: {token: y}}}"))
	if err == nil || !strings.Contains(err.Error(), "line 2: settings: token is not allowed") {
		t.Errorf("the second of two is not told: %v", err)
	}
}

// TestOurs checks which settings files may be replaced: an unchanged file of a rollout, and a file that sets
// nothing. A file that an operator wrote or changed is kept.
func TestOurs(t *testing.T) {
	hosts, err := ReadHosts("f", []byte("nodes: {n1: }"))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := hosts[0].File(true)
	changed := strings.Replace(string(text), "id: n1", "id: n2", 1)
	for text, want := range map[string]bool{
		string(text): true, changed: false, "": true, "# all that may be set\n\n  # join: x\n": true, "join: x\n": false,
		"# a word\njoin: x\n": false,
	} {
		if ours([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestPlan checks the work on a node, for different states of the node.
func TestPlan(t *testing.T) {
	hosts, err := ReadHosts("f", []byte("nodes: {n1: }"))
	if err != nil {
		t.Fatal(err)
	}
	right, _ := hosts[0].File(true)
	deb := Package{Version: "2", Arch: "x86_64", Kind: "deb"}
	as := Found{Arch: "x86_64", Kind: "deb", Version: "2", Systemd: true, Active: true, Enabled: true, Keyed: true,
		Settings: right}
	for _, c := range []struct {
		name   string
		change func(*Found, *Plan)
		want   string
	}{
		{"as it should be", func(*Found, *Plan) {}, "up to date"},
		{"new", func(f *Found, _ *Plan) { *f = Found{Arch: f.Arch, Kind: f.Kind, Systemd: true} },
			"installs 2, writes settings, joins with a token"},
		{"older", func(f *Found, _ *Plan) { f.Version = "1" }, "replaces 1 with 2"},
		{"no package is wanted", func(f *Found, p *Plan) { f.Version, p.Packages = "1", nil }, "up to date"},
		{"no package is there", func(f *Found, p *Plan) { f.Version, p.Packages = "", nil }, "synapse is not installed"},
		{"stopped", func(f *Found, _ *Plan) { f.Active = false }, "starts the agent"},
		{"not enabled", func(f *Found, _ *Plan) { f.Enabled = false }, "starts the agent"},
		{"by hand", func(f *Found, _ *Plan) { f.Settings = []byte("join: x\n") },
			"/etc/synapse/node.yaml was edited on the node"},
		{"by hand, and overwritten", func(f *Found, p *Plan) { f.Settings, p.Overwrite = []byte("join: x\n"), true },
			"writes settings"},
		{"no key", func(f *Found, p *Plan) { f.Keyed, p.MayInvite = false, false }, "add --by with the scheduler's folder"},
		{"plaintext", func(f *Found, p *Plan) { f.Keyed, p.Token = false, false }, "writes settings"},
		{"a key, and a run that knows of none", func(_ *Found, p *Plan) { p.Token, p.MayInvite = false, false },
			"up to date"},
		{"another kind", func(f *Found, _ *Plan) { f.Kind = "rpm" }, "no package is a .rpm for x86_64"},
		{"another processor", func(f *Found, _ *Plan) { f.Arch = "aarch64" }, "no package is a .deb for aarch64"},
		{"no systemd", func(f *Found, _ *Plan) { f.Systemd = false }, "node has no systemd"},
	} {
		f, p := as, Plan{Packages: []Package{deb}, Token: true, MayInvite: true}
		c.change(&f, &p)
		w, err := p.For(hosts[0], f)
		got := w.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestPackageNames checks that packages are recognized by the names that `make dist` creates.
func TestPackageNames(t *testing.T) {
	for name, want := range map[string]string{
		"synapse_1.4.0_amd64.deb":                       "1.4.0 x86_64 deb",
		"synapse_0~20261127.0123456789ab_arm64.deb":     "0~20261127.0123456789ab aarch64 deb",
		"synapse-1.4.0-1.x86_64.rpm":                    "1.4.0-1 x86_64 rpm",
		"synapse-0~20261127.0123456789ab-1.aarch64.rpm": "0~20261127.0123456789ab-1 aarch64 rpm",
		"other_1_amd64.deb":                             "", "synapse_1.4.0_riscv.deb": "", "synapse.deb": "",
	} {
		p, err := named(name)
		got := p.Version + " " + p.Arch + " " + p.Kind
		if want == "" && err == nil || want != "" && got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
