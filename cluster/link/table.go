package link

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns who may say what to whom across machines. It is the one list:
// the reader delivers nothing that is not in it, the writer sends nothing else.

// gatewayPath begins the paths of a gateway's reply processes, at a scheduler's address.
const gatewayPath = "synapse/gateway/"

// spoken is the type of a message as it comes in.
type spoken interface {
	messages.Message
	Validate() error
}

// row lets a type of message pass, from actors of such paths to actors of such
// paths. A path that ends with * stands for one more word; with **, for
// anything. No from: the message has no sender.
type row struct {
	message  spoken
	from, to string
}

const (
	anyJob       = actors.SchedulerPath + "/job-*"
	anyRack      = actors.SchedulerPath + "/rack-**"
	anyScheduler = actors.SchedulerPath + "**" // the Scheduler, its Jobs and their Coordinators
)

// towardScheduler is what a machine may say.
var towardScheduler = tabled([]row{
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
	{&messages.Exited{}, actors.NodePath, anyJob},
	{&messages.Ended{}, actors.NodePath, anyJob},
	{&messages.TaskLogs{}, "", gatewayPath + "**"},
})

// towardNode is what a scheduler may say.
var towardNode = tabled([]row{
	{&messages.Lead{}, actors.SchedulerPath, actors.NodePath},
	{&messages.Welcome{}, anyRack, actors.NodePath},
	{&messages.Rejected{}, "", actors.NodePath},
	{&messages.HeartbeatAck{}, "", actors.NodePath},
	{&messages.Reserve{}, anyScheduler, actors.NodePath},
	{&messages.Abort{}, anyScheduler, actors.NodePath},
	{&messages.Commit{}, anyScheduler, actors.NodePath},
	{&messages.Start{}, anyScheduler, actors.NodePath},
	{&messages.Stop{}, anyScheduler, actors.NodePath},
	{&messages.Forget{}, anyScheduler, actors.NodePath},
	{&messages.LogsTask{}, gatewayPath + "**", actors.NodePath},
})

// table finds the row of a type by its name on the wire.
type table map[string]*row

func tabled(rows []row) table {
	t := table{}
	for i := range rows {
		t[typeName(rows[i].message)] = &rows[i]
	}
	return t
}

func typeName(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// make is a fresh message of the row's type.
func (r *row) make() spoken { return r.message.ProtoReflect().New().Interface().(spoken) }

func (r *row) descriptor() protoreflect.MessageDescriptor {
	return r.message.ProtoReflect().Descriptor()
}

// covers reports whether a path is one that the pattern stands for.
func covers(pattern, path string) bool {
	if len(path) > pathBytes {
		return false
	}
	if prefix, any := strings.CutSuffix(pattern, "**"); any {
		return strings.HasPrefix(path, prefix)
	}
	if prefix, one := strings.CutSuffix(pattern, "*"); one {
		word, is := strings.CutPrefix(path, prefix)
		return is && word != "" && !strings.Contains(word, "/")
	}
	return path == pattern
}
