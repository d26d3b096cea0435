package rollout

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file reads the file of nodes, and computes the settings of each node.

// Host is a node of a deployment.
type Host struct {
	Name     string // in the cluster
	Ssh      string // destination for ssh
	settings *yaml.Node
}

// The paths of an agent on its node.
const (
	SettingsFile  = "/etc/synapse/node.yaml"
	tokenFile     = "/etc/synapse/token"
	defaultFolder = "/var/lib/synapse-node"
)

// theName in the value of `ssh` is replaced by the name of the node.
const theName = "{name}"

// problems collects the errors in the file, by line.
type problems struct {
	file string
	all  []error
}

func (p *problems) say(n *yaml.Node, format string, args ...any) {
	p.all = append(p.all, fmt.Errorf("%s: line %d: %s", p.file, n.Line, fmt.Sprintf(format, args...)))
}

// pairs returns the keys and values of a mapping. It reports other values, duplicate keys and unknown keys.
func (p *problems) pairs(n *yaml.Node, what string, known ...string) (keys, values []*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.say(n, "%s: must be keys and values", what)
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		again := func(k *yaml.Node) bool { return k.Value == key.Value }
		switch {
		case slices.ContainsFunc(keys, again):
			p.say(key, "%s: duplicate key %s", what, key.Value)
		case known != nil && !slices.Contains(known, key.Value):
			p.say(key, "%s: unknown key %s; %s", what, key.Value, meant(key.Value, known))
		default:
			keys, values = append(keys, key), append(values, n.Content[i+1])
		}
	}
	return keys, values
}

// meant returns a suggestion for an unknown key: its new name, or the most similar one.
func meant(key string, known []string) string {
	if now, is := renamed.Key(renamed.HostsFile, key); is {
		return "use " + now
	}
	return spelling.Meant(key, known)
}

// ReadHosts reads the file of nodes. It reports all errors at once.
func ReadHosts(file string, text []byte) ([]Host, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p := &problems{file: file}
	var common, machines *yaml.Node
	if len(document.Content) == 1 {
		keys, values := p.pairs(document.Content[0], "the file", "settings", "nodes")
		for i, key := range keys {
			if key.Value == "settings" {
				common = values[i]
				p.settings(common)
			} else {
				machines = values[i]
			}
		}
	}
	var hosts []Host
	if machines != nil {
		keys, values := p.pairs(machines, "nodes")
		for i, key := range keys {
			hosts = append(hosts, p.hosts(key, values[i], common)...)
		}
	}
	if len(hosts) == 0 && len(p.all) == 0 {
		return nil, fmt.Errorf("%s: no node is listed; add `nodes:` and below it `  n1: {ssh: root@10.0.0.11}`",
			file)
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		if seen[h.Name] {
			p.all = append(p.all, fmt.Errorf("%s: duplicate node %s", file, h.Name))
		}
		seen[h.Name] = true
	}
	return hosts, errors.Join(p.all...)
}

// hosts returns the nodes of one entry: a single name, or several as in n[1-3,7].
func (p *problems) hosts(key, value, common *yaml.Node) (all []Host) {
	names, err := slurm.Hostnames(key.Value)
	if err != nil {
		p.say(key, "nodes: %q is neither a node name nor a list such as n[1-3,7]", key.Value)
		return nil
	}
	ssh, own := theName, (*yaml.Node)(nil)
	if value.Tag != "!!null" {
		keys, values := p.pairs(value, "machine "+key.Value, "ssh", "settings")
		for i, k := range keys {
			switch {
			case k.Value == "settings":
				own = values[i]
				p.settings(own)
			case values[i].Kind != yaml.ScalarNode || values[i].Value == "" || strings.HasPrefix(values[i].Value, "-"):
				p.say(values[i], "node %s: ssh must be an ssh destination, such as root@10.0.0.11", key.Value)
			case len(names) > 1 && !strings.Contains(values[i].Value, theName):
				p.say(values[i], "node %s: ssh is the same for all nodes of the list; write %s for the node's name",
					key.Value, theName)
			default:
				ssh = values[i].Value
			}
		}
	}
	for _, name := range names {
		all = append(all, Host{name, strings.ReplaceAll(ssh, theName, name), merged(common, own)})
	}
	return all
}

// settings checks the structure of a node's settings. The agent checks the values on the node.
func (p *problems) settings(n *yaml.Node) {
	keys, _ := p.pairs(n, "settings")
	for _, key := range keys {
		switch key.Value {
		case "id":
			p.say(key, "settings: id is not allowed; write the node's name below `nodes`")
		case "token":
			p.say(key, "settings: token is not allowed; deploy creates tokens with --by")
		}
	}
}

// merged returns the common settings, overridden by those of one node.
func merged(common, own *yaml.Node) *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, from := range []*yaml.Node{common, own} {
		for i := 0; from != nil && i+1 < len(from.Content); i += 2 {
			key, value := from.Content[i], from.Content[i+1]
			if at := keyAt(all, key.Value); at >= 0 {
				all.Content[at+1] = value
			} else {
				all.Content = append(all.Content, key, value)
			}
		}
	}
	return all
}

// keyAt returns the index of a key in a mapping, or -1.
func keyAt(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// setting returns the value of a setting, or otherwise if it is not set.
func (h Host) setting(key, otherwise string) string {
	if at := keyAt(h.settings, key); at >= 0 {
		return h.settings.Content[at+1].Value
	}
	return otherwise
}

// KeyFolder returns the folder of the node's key.
func (h Host) KeyFolder() string {
	return h.setting("tls", h.setting("data-dir", defaultFolder)+"/tls")
}

// The first lines of a settings file that a rollout wrote. The checksum covers the rest of the file.
const (
	writtenBy = "# Written by `synapse-cli deploy`. Change the file of machines and deploy again: what is changed here\n" +
		"# stops that.\n"
	sumIs = "# Its sum was "
)

// File returns the settings file of the node. With token, the agent joins with the token next to the file.
func (h Host) File(token bool) ([]byte, error) {
	word := func(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
	all := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word("id"), word(h.Name)}}
	all.Content[1].SetString(h.Name)
	if token {
		all.Content = append(all.Content, word("token"), word(tokenFile))
	}
	all.Content = append(all.Content, h.settings.Content...)
	body, err := yaml.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", h.Name, err)
	}
	return fmt.Appendf(nil, "%s%s%x.\n%s", writtenBy, sumIs, sha256.Sum256(body), body), nil
}

// ours reports whether a settings file may be replaced. A rollout wrote it and it is unchanged since, or it sets
// nothing, like the file in the package.
func ours(text []byte) bool {
	if rest, ok := bytes.CutPrefix(text, []byte(writtenBy+sumIs)); ok {
		sum, body, _ := bytes.Cut(rest, []byte(".\n"))
		return string(sum) == fmt.Sprintf("%x", sha256.Sum256(body))
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}
