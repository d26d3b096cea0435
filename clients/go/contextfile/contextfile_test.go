package contextfile

import "testing"

// TestCurrent checks the simple form, and that every other form is left to the YAML parser.
func TestCurrent(t *testing.T) {
	const file = "current: lab\ncontexts:\n    - name: lab\n      server: head:9000\n      cluster: lab\n" +
		"      user: ada\n      role: submitter\n      token: synapselogin1.lab.00.11\n" +
		"    - name: other\n      server: b:1\n      tls: /keys/ada\n"
	if got, ok := Current(file); !ok || *got != (Entry{Server: "head:9000", Token: "synapselogin1.lab.00.11"}) {
		t.Errorf("%v %v", got, ok)
	}
	other := "current: other\n" + file[len("current: lab\n"):]
	if got, ok := Current(other); !ok || *got != (Entry{Server: "b:1", TLS: "/keys/ada"}) {
		t.Errorf("%v %v", got, ok)
	}
	for _, text := range []string{
		"", "contexts: []\n",
		"current: none\ncontexts:\n    - name: a\n      server: b:1\n",
		file + "      refresh: x\n", file + "      issuer: https://x\n", file + "# comment\n", file + "    - name: lab\n",
		"current: \"lab\"\n" + file[len("current: lab\n"):], "current: lab\ncontexts:\n- name: lab\n  server: b:1\n",
		"current: lab\nserver: b:1\n", "current: a\ncontexts:\n    - name: a\n      server: !!str b:1\n",
		"current: a\ncontexts:\n      server: b:1\n    - name: a\n",
		"current: a\ncontexts:\n    - name: a\n      server: null\n",
	} {
		if got, ok := Current(text); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
