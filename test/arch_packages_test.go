// The packages of this module. This file defines which package may import which.
package test

import "path"

// packageRule lists the imports that a folder and its subfolders may use.
type packageRule struct {
	// ours lists folders of this module, or single packages in them. A package may always import its own
	// subfolders.
	ours []string
	// libraries lists the permitted modules of others as path prefixes. nil means any module that no rule bans.
	libraries []string
	// pure packages use only those parts of the standard library that have no clock, I/O, randomness or locks.
	pure bool
}

const (
	protoActor = "github.com/asynkron/protoactor-go"
	protobuf   = "google.golang.org/protobuf"
)

// packages lists the permitted imports of each package. A folder that is not listed here is rejected.
var packages = map[string]packageRule{
	"topology": {libraries: []string{}, pure: true},
	// The leader's view depends on the model of nodes, which does not know the view.
	"topology/suspicion": {ours: []string{"topology"}, libraries: []string{}, pure: true},
	"topology/belief":    {ours: []string{"topology", "clock/backoff"}, libraries: []string{}, pure: true},

	// The count of GPU time knows no jobs and no messages.
	"goodput": {ours: []string{"topology"}, libraries: []string{}, pure: true},
	"policy": {
		ours:      []string{"topology", "policy/estimate", "policy/heap", "policy/preempt", "policy/share"},
		libraries: []string{}, pure: true,
	},
	// Estimates of jobs do not depend on the queue.
	"policy/estimate": {ours: []string{"topology", "policy/heap"}, libraries: []string{}, pure: true},
	"policy/share":    {ours: []string{"topology"}, libraries: []string{}, pure: true},
	"policy/preempt":  {ours: []string{"topology", "policy/share"}, libraries: []string{}, pure: true},
	"policy/heap":     {libraries: []string{}, pure: true},
	"messages":        {ours: []string{"topology"}, libraries: []string{protobuf}, pure: true},
	// The configuration of queues and the planning of queues are two packages that do not know each other.
	"messages/queues": {ours: []string{"topology", "policy/share", "messages"}, libraries: []string{}, pure: true},
	// Facts become text in one way for the mirror, the gateway, the web UI and the command line.
	"messages/explain": {ours: []string{"topology", "messages"}, libraries: []string{}, pure: true},
	// The leader and the simulator decide in one way whether a gang hangs, and because of which rank.
	"messages/hang": {ours: []string{"messages"}, libraries: []string{}, pure: true},
	// The Mirror only shows which ranks are slow. No decision uses it.
	"messages/straggler": {ours: []string{"messages"}, libraries: []string{}, pure: true},
	// The leader and the simulator decide why an attempt failed in one way.
	"messages/verdict": {ours: []string{"topology", "messages"}, libraries: []string{protobuf}, pure: true},
	// The common parts of leader and worker know neither of them. The leader sends to the mirror, which sends only
	// to readers.
	"actors":        actorPackage("topology", "messages", "clock/backoff"),
	"actors/worker": actorPackage("topology", "messages", "actors"),
	"actors/mirror": actorPackage("topology", "goodput", "policy", "messages", "actors"),
	"actors/leader": actorPackage("messages", "actors", "actors/mirror", "actors/leader/protocol", "actors/leader/journal",
		"actors/leader/rack", "actors/leader/array", "actors/leader/coordinator", "actors/leader/job",
		"actors/leader/scheduler"),
	// Each actor of a leader knows the messages between them, and no other actor. The leader passes in their
	// constructors.
	"actors/leader/protocol":   actorPackage("topology", "policy", "messages", "actors"),
	"actors/leader/leadertest": actorPackage("topology", "policy", "messages", "actors", "actors/leader/protocol"),
	"actors/leader/intake":     leaderPackage("policy/share"),
	"actors/leader/journal":    leaderPackage("clock/backoff"),
	"actors/leader/rack":       leaderPackage("actors/mirror"),
	"actors/leader/scheduler": leaderPackage("actors/leader/intake", "policy", "goodput", "actors/mirror",
		"clock/backoff"),
	"actors/leader/job":         leaderPackage("actors/mirror", "clock/backoff"),
	"actors/leader/coordinator": leaderPackage(),
	"actors/leader/array":       leaderPackage("actors/mirror"),
	"store":                     {ours: []string{"topology", "policy", "messages", "actors"}},
	"cluster":                   {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "clock"}},
	// The server depends on how processes find, authenticate and reach each other. That code knows no client.
	"server":  {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "clock"}},
	"runtime": {ours: []string{"topology", "policy", "messages", "actors", "clock"}},
	// Code in real time measures with one clock. Simulated code cannot use it.
	"clock":         {libraries: []string{"golang.org/x/sys/unix"}},
	"clock/backoff": {libraries: []string{}, pure: true},
	"sim":           {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "cluster/lease"}},
	// A client knows the messages and how to authenticate, and no code that decides.
	"clients": {
		ours: []string{"topology", "policy/share", "messages", "cluster/credential", "cluster/identity", "server/api",
			"server/unixsocket"},
		libraries: []string{"google.golang.org/grpc", protobuf, "go.yaml.in/yaml/v3"},
	},
	"cmd": {
		ours: []string{
			"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "server", "runtime", "sim", "clock",
			"clients",
		},
	},
	// Examples for users are programs that know nothing of this module.
	"examples": {libraries: []string{}},
	"test": {
		ours: []string{
			"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "server", "runtime", "sim", "clock",
			"clients", "cmd",
		},
	},
}

// actorPackage returns the rule of a package with actors. Of protobuf it allows only proto, because the output of
// protojson and prototext differs between builds by design.
func actorPackage(ours ...string) packageRule {
	return packageRule{
		ours: ours, libraries: []string{
			protoActor + "/actor", protobuf + "/proto", protobuf + "/encoding/protowire",
		}, pure: true,
	}
}

// leaderPackage returns the rule of a package with one actor of a leader.
func leaderPackage(ours ...string) packageRule {
	return actorPackage(append(ours, "topology", "messages", "actors", "actors/leader/protocol",
		"actors/leader/leadertest")...)
}

// packageOf returns the listed package that a folder belongs to: itself, or the nearest one above it.
func packageOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, known := packages[folder]; known {
			return folder
		}
	}
	return ""
}
