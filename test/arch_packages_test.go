// The packages of this module. This file owns which package may import which.
package test

import "path"

// packageRule lists the imports that a folder and its subfolders may use.
type packageRule struct {
	// ours are this module's folders, or single packages of one. A package may always import its own sub-folders.
	ours []string
	// libraries are the modules of others that it may import, as path prefixes; nil means any that no rule bans.
	libraries []string
	// pure packages take from the standard library only what has no clock, no I/O, no randomness and no locking.
	pure bool
}

const (
	protoActor = "github.com/asynkron/protoactor-go"
	protobuf   = "google.golang.org/protobuf"
)

// packages lists what each package may import. A folder that is not listed here is refused.
var packages = map[string]packageRule{
	"topology": {libraries: []string{}, pure: true},
	// What the leader believes stands on what a machine is and has, which knows nothing of it.
	"topology/belief": {ours: []string{"topology", "clock/backoff"}, libraries: []string{}, pure: true},

	// Where GPU time goes is counted by one who knows no jobs and no messages.
	"goodput": {ours: []string{"topology"}, libraries: []string{}, pure: true},
	"policy": {
		ours:      []string{"topology", "policy/estimate", "policy/heap", "policy/preempt", "policy/share"},
		libraries: []string{}, pure: true,
	},
	// What is learned of jobs knows nothing of who waits.
	"policy/estimate": {ours: []string{"topology", "policy/heap"}, libraries: []string{}, pure: true},
	"policy/share":    {ours: []string{"topology"}, libraries: []string{}, pure: true},
	"policy/preempt":  {ours: []string{"topology", "policy/share"}, libraries: []string{}, pure: true},
	"policy/heap":     {libraries: []string{}, pure: true},
	"messages":        {ours: []string{"topology"}, libraries: []string{protobuf}, pure: true},
	// What is said of queues and what is planned by them are two packages that do not know each other.
	"messages/queues": {ours: []string{"topology", "policy/share", "messages"}, libraries: []string{}, pure: true},
	// What leader and worker have in common knows neither; the leader speaks to the mirror, which speaks to readers alone.
	"actors":        actorPackage("topology", "messages", "clock/backoff"),
	"actors/worker": actorPackage("topology", "messages", "actors"),
	"actors/mirror": actorPackage("topology", "goodput", "policy", "messages", "actors"),
	"actors/leader": actorPackage("messages", "actors", "actors/mirror", "actors/leader/protocol", "actors/leader/journal",
		"actors/leader/rack", "actors/leader/array", "actors/leader/coordinator", "actors/leader/job",
		"actors/leader/scheduler"),
	// Each actor of a leader knows what they say to each other, and none knows another: the leader hands in how they are
	// made.
	"actors/leader/protocol":   actorPackage("topology", "policy", "messages", "actors"),
	"actors/leader/leadertest": actorPackage("topology", "policy", "messages", "actors", "actors/leader/protocol"),
	"actors/leader/intake":     leaderPackage("policy/share"),
	"actors/leader/journal":    leaderPackage("clock/backoff"),
	"actors/leader/rack":       leaderPackage(),
	"actors/leader/scheduler": leaderPackage("actors/leader/intake", "policy", "goodput", "actors/mirror",
		"clock/backoff"),
	"actors/leader/job":         leaderPackage("actors/mirror", "clock/backoff"),
	"actors/leader/coordinator": leaderPackage(),
	"actors/leader/array":       leaderPackage("actors/mirror"),
	"store":                     {ours: []string{"topology", "policy", "messages", "actors"}},
	"cluster":                   {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "clock"}},
	// What is served stands on how processes find, prove and hear each other, which knows of no client.
	"server":  {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "clock"}},
	"runtime": {ours: []string{"topology", "policy", "messages", "actors", "clock"}},
	// What runs in real time measures by one clock; what is simulated cannot.
	"clock":         {libraries: []string{"golang.org/x/sys/unix"}},
	"clock/backoff": {libraries: []string{}, pure: true},
	"sim":           {ours: []string{"topology", "goodput", "policy", "messages", "actors", "store", "cluster/lease"}},
	// A client knows what is said and how to prove who says it, and no part that decides.
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
	// What users start from: programs that know nothing of this module.
	"examples": {libraries: []string{}},
	"test": {
		ours: []string{
			"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "server", "runtime", "sim", "clock",
			"clients", "cmd",
		},
	},
}

// actorPackage is a package in which actors live. Of protobuf only proto: the results of protojson and
// prototext differ from build to build, by design.
func actorPackage(ours ...string) packageRule {
	return packageRule{
		ours: ours, libraries: []string{
			protoActor + "/actor", protobuf + "/proto", protobuf + "/encoding/protowire",
		}, pure: true,
	}
}

// leaderPackage is a package in which one actor of a leader lives.
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
