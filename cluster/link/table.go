package link

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns which actor may send which message to which actor across processes. It is the only list: the reader
// delivers nothing else, and the writer sends nothing else.

// gatewayPath is the prefix of the paths of a gateway's reply processes, at a scheduler's address.
const gatewayPath = "synapse/gateway/"

// spoken is a decoded message that may cross.
type spoken interface {
	messages.Message
	Validate() error
}

// rule permits a type of message between actors whose paths match. A * at the end of a pattern matches one more word,
// ** matches anything. A rule without from is for messages without a sender.
type rule struct {
	message  spoken
	from, to string
}

const (
	anyJob       = actors.SchedulerPath + "/job-*"
	anyRack      = actors.SchedulerPath + "/rack-**"
	anyScheduler = actors.SchedulerPath + "**" // the Scheduler, its Jobs and their Coordinators
)

// towardScheduler lists the messages that a node may send.
var towardScheduler = tabled([]rule{
	{&messages.Hello{}, actors.NodePath, actors.SchedulerPath},
	{&messages.Heartbeat{}, actors.NodePath, anyRack},
	{&messages.Report{}, actors.NodePath, anyRack},
	{&messages.Reserved{}, actors.NodePath, anyJob},
	{&messages.Refused{}, actors.NodePath, anyJob},
	{&messages.Aborted{}, actors.NodePath, anyJob},
	{&messages.Committed{}, actors.NodePath, anyJob},
	{&messages.Prepared{}, actors.NodePath, anyJob},
	{&messages.Expired{}, actors.NodePath, anyJob},
	{&messages.Started{}, actors.NodePath, anyJob},
	{&messages.Lacking{}, actors.NodePath, anyJob},
	{&messages.Warned{}, actors.NodePath, anyJob},
	{&messages.Exited{}, actors.NodePath, anyJob},
	{&messages.Ended{}, actors.NodePath, anyJob},
	{&messages.TaskLogs{}, "", gatewayPath + "**"},
	{&messages.ExecRefused{}, "", gatewayPath + "**"},
})

// towardNode lists the messages that a scheduler may send.
var towardNode = tabled([]rule{
	{&messages.Lead{}, actors.SchedulerPath, actors.NodePath},
	{&messages.Welcome{}, anyRack, actors.NodePath},
	{&messages.Rejected{}, "", actors.NodePath},
	{&messages.HeartbeatAck{}, "", actors.NodePath},
	{&messages.Reserve{}, anyScheduler, actors.NodePath},
	{&messages.Abort{}, anyScheduler, actors.NodePath},
	{&messages.Commit{}, anyScheduler, actors.NodePath},
	{&messages.Start{}, anyScheduler, actors.NodePath},
	{&messages.Warn{}, anyScheduler, actors.NodePath},
	{&messages.Stop{}, anyScheduler, actors.NodePath},
	{&messages.Forget{}, anyScheduler, actors.NodePath},
	{&messages.LogsTask{}, gatewayPath + "**", actors.NodePath},
	{&messages.ExecTask{}, gatewayPath + "**", actors.NodePath},
})

// table maps a type's name on the wire to its rule.
type table map[string]*rule

func tabled(rows []rule) table {
	t := table{}
	for i := range rows {
		t[typeName(rows[i].message)] = &rows[i]
	}
	return t
}

func typeName(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// fresh returns a new message of the rule's type.
func (r *rule) fresh() spoken { return r.message.ProtoReflect().New().Interface().(spoken) }

func (r *rule) descriptor() protoreflect.MessageDescriptor {
	return r.message.ProtoReflect().Descriptor()
}

// covers reports whether a pattern matches a path.
func covers(pattern, path string) bool {
	if len(path) > maxPathBytes {
		return false
	}
	if prefix, ok := strings.CutSuffix(pattern, "**"); ok {
		return strings.HasPrefix(path, prefix)
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		word, ok := strings.CutPrefix(path, prefix)
		return ok && word != "" && !strings.Contains(word, "/")
	}
	return path == pattern
}
