package topology

// This file owns kinds: the few properties of a machine that a gang may select
// by (the type of its devices, its labels, what its agent understands), each distinct set of
// them numbered, so that a selector is compared once per kind and not once per machine.

import (
	"cmp"
	"slices"
	"strconv"
)

// NetworkKey is the key under which a machine's networks are selected. No label can have this key: a label cannot claim
// what an agent cannot do.
const NetworkKey = "the network"

// SecretKey is likewise that of the ways in which machines can give secrets to tasks.
const SecretKey = "secrets as"

type kind struct {
	key     string
	gpuType string
	labels  []Label
	speaks  int32 // the vocabulary of the agents
	members int

	accounts *Accounts
}

// kindTable numbers the kinds. A number is used again once its last machine has left; the version then tells the
// indexes that a number may mean something else.
type kindTable struct {
	all     []kind
	byKey   map[string]int32
	unused  []int32
	version uint64

	// selectors remembers the texts of selectors, so that naming one that was
	// seen before costs no memory.
	selectors map[string]string
}

func newKindTable() kindTable {
	return kindTable{byKey: map[string]int32{}, selectors: map[string]string{}}
}

// enter counts a machine under its kind.
func (t *kindTable) enter(m *Machine) int32 {
	labels := slices.Clone(m.Labels)
	sortLabels(labels)
	key := string(m.Accounts.appendTo(
		appendLabels(nil, append(labels, Label{Key: m.GPUType, Value: strconv.Itoa(int(m.Vocabulary))}))))
	if id, ok := t.byKey[key]; ok {
		t.all[id].members++
		return id
	}
	k := kind{key: key, gpuType: m.GPUType, labels: labels, speaks: m.Vocabulary, members: 1, accounts: m.Accounts}
	id := int32(len(t.all))
	if n := len(t.unused); n > 0 {
		id, t.unused = t.unused[n-1], t.unused[:n-1]
		t.all[id] = k
		t.version++
	} else {
		t.all = append(t.all, k)
	}
	t.byKey[key] = id
	return id
}

func (t *kindTable) leave(id int32) {
	k := &t.all[id]
	if k.members--; k.members == 0 {
		delete(t.byKey, k.key)
		t.unused = append(t.unused, id)
	}
}

// wanted holds the requirements of a gang on a kind of node: device type, vocabulary of the agent, labels, account.
type wanted struct {
	gpuType    string
	vocabulary int32
	selector   []Label
	account    Account
}

// wanted returns the gang's requirements on a kind of node.
func (g *Gang) wanted() wanted { return wanted{g.GPUType, g.Vocabulary, g.Selector, g.Account} }

// matches reports whether machines of a kind may serve a gang.
func (k *kind) matches(w wanted) bool {
	if w.gpuType != "" && w.gpuType != k.gpuType || k.speaks < w.vocabulary || !k.accounts.Accept(w.account) {
		return false
	}
	for _, l := range w.selector {
		if !slices.Contains(k.labels, l) {
			return false
		}
	}
	return true
}

func sortLabels(labels []Label) {
	slices.SortFunc(labels, func(a, b Label) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
}

// appendLabels writes sorted labels so that different sets give different texts,
// whatever characters they hold.
func appendLabels(b []byte, labels []Label) []byte {
	for _, l := range labels {
		b = strconv.AppendInt(b, int64(len(l.Key)), 10)
		b = append(b, ':')
		b = append(b, l.Key...)
		b = strconv.AppendInt(b, int64(len(l.Value)), 10)
		b = append(b, '=')
		b = append(b, l.Value...)
	}
	return b
}
