// The rooms of the house. This file owns which room may import which.
package test

import "path"

// room is what one top folder may import.
type room struct {
	// ours are this module's folders, or single packages of one. A room may always import its own sub-folders.
	ours []string
	// libraries are the modules of others that it may import, as path prefixes; nil means any that no law bans.
	libraries []string
	// pure rooms take from the standard library only what has no clock, no I/O, no randomness and no locking.
	pure bool
}

const (
	protoActor = "github.com/asynkron/protoactor-go"
	protobuf   = "google.golang.org/protobuf"
)

// rooms says what each room imports. A folder that is not listed here does not exist in the house.
var rooms = map[string]room{
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
	"actors":        actorRoom("topology", "messages", "clock/backoff"),
	"actors/worker": actorRoom("topology", "messages", "actors"),
	"actors/mirror": actorRoom("topology", "goodput", "policy", "messages", "actors"),
	"actors/leader": actorRoom("messages", "actors", "actors/mirror", "actors/leader/protocol", "actors/leader/journal",
		"actors/leader/rack", "actors/leader/array", "actors/leader/coordinator", "actors/leader/job",
		"actors/leader/scheduler"),
	// Each actor of a leader knows what they say to each other, and none knows another: the leader hands in how they are
	// made.
	"actors/leader/protocol":    actorRoom("topology", "policy", "messages", "actors"),
	"actors/leader/leadertest":  actorRoom("topology", "policy", "messages", "actors", "actors/leader/protocol"),
	"actors/leader/intake":      leaderRoom("policy/share"),
	"actors/leader/journal":     leaderRoom("clock/backoff"),
	"actors/leader/rack":        leaderRoom(),
	"actors/leader/scheduler":   leaderRoom("actors/leader/intake", "policy", "goodput", "actors/mirror", "clock/backoff"),
	"actors/leader/job":         leaderRoom("actors/mirror", "clock/backoff"),
	"actors/leader/coordinator": leaderRoom(),
	"actors/leader/array":       leaderRoom("actors/mirror"),
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
	// What users start from: programs that know nothing of the house.
	"examples": {libraries: []string{}},
	"test": {
		ours: []string{
			"topology", "goodput", "policy", "messages", "actors", "store", "cluster", "server", "runtime", "sim", "clock",
			"clients", "cmd",
		},
	},
}

// actorRoom is a room in which actors live. Of protobuf only proto: protojson and prototext answer differently from
// build to build, by design.
func actorRoom(ours ...string) room {
	return room{
		ours: ours, libraries: []string{
			protoActor + "/actor", protobuf + "/proto", protobuf + "/encoding/protowire",
		}, pure: true,
	}
}

// leaderRoom is a room in which one actor of a leader lives.
func leaderRoom(ours ...string) room {
	return actorRoom(append(ours, "topology", "messages", "actors", "actors/leader/protocol",
		"actors/leader/leadertest")...)
}

// roomOf is the room that a package is in: that of its folder, or of the nearest one above it.
func roomOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, known := rooms[folder]; known {
			return folder
		}
	}
	return ""
}
