package topology

// This file numbers the kinds of nodes. A kind is a distinct set of the properties that gangs select by: type of
// devices, labels, vocabulary of the agent, accounts. A selector is compared once per kind instead of once per node.

import (
	"cmp"
	"slices"
	"strconv"
)

// NetworkKey is the key of the labels for a node's networks. No label of a user can have this key, so a label cannot
// claim an ability that the agent lacks.
const NetworkKey = "the network"

// SecretKey is the key of the labels for the ways in which a node gives secrets to tasks. No label of a user can have
// this key.
const SecretKey = "secrets as"

type kind struct {
	key     string
	gpuType string
	labels  []Label
	speaks  int32 // the vocabulary of the agents
	members int

	accounts *Accounts
}

// kindTable numbers the kinds. A number is reused after its last node has left. The version then grows, because the
// number may have a new meaning in the indexes.
type kindTable struct {
	all     []kind
	byKey   map[string]int32
	unused  []int32
	version uint64

	// selectors caches the texts of selectors, so that a known selector needs no new memory.
	selectors map[string]string
}

func newKindTable() kindTable {
	return kindTable{byKey: map[string]int32{}, selectors: map[string]string{}}
}

// enter adds a node to its kind.
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

// matches reports whether nodes of a kind meet the requirements.
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

// appendLabels appends a text of sorted labels. Different sets have different texts, whatever characters they contain.
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
