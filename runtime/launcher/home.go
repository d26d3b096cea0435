package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/environment"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the launcher's part of a task's directory: the request and the progress. The supervisor writes its
// files in the same directory. A later agent continues from these records.

const (
	homeFile     = "task.json"
	hostfileName = "hostfile"
)

// homeRecord is the JSON content of the launcher's record.
type homeRecord struct {
	BootID   string `json:"boot_id"`
	Driver   string `json:"driver"`
	Job      string `json:"job"`
	Prepared bool   `json:"prepared"`
	Request  []byte `json:"request"` // the PrepareTask in wire format
	// The disk limit of the task.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	DiskFiles int64 `json:"disk_files,omitempty"`
	// DiskPromised reports that this disk space is reserved for the task.
	DiskPromised bool `json:"disk_promised,omitempty"`
}

// makeHome makes the task's directories and records the request.
func (t *task) makeHome() error {
	for _, dir := range []string{t.home, t.Dir, t.Scratch} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the task's directory: %w", err)
		}
	}
	return t.save(false)
}

func (t *task) save(prepared bool) error {
	request := messages.Bytes(&messages.PrepareTask{
		Id: messages.ToTaskID(t.Key), Job: t.Job, Spec: t.Spec, Uid: t.UID, Owner: t.Owner, OwnerProven: t.OwnerProven,
		Grant: t.Grant,
	})
	record := homeRecord{BootID: t.l.o.BootID, Driver: t.driver.Name(), Job: t.Job, Prepared: prepared, Request: request}
	record.DiskBytes, record.DiskFiles = t.disk.allowed.Bytes, t.disk.allowed.Files
	record.DiskPromised = t.disk.promised.Load()
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write the task's record: %w", err)
	}
	if err := file.Replace(filepath.Join(t.home, homeFile), data); err != nil {
		return fmt.Errorf("write the task's record: %w", err)
	}
	return nil
}

// load takes over the tasks in the directory.
func (l *Launcher) load() error {
	entries, err := os.ReadDir(filepath.Join(l.o.Dir, tasksDir))
	if err != nil {
		return fmt.Errorf("launcher: %w", err)
	}
	for _, e := range entries {
		key, ok := ParseKey(e.Name())
		if !ok {
			l.o.Log.Info("%s in %s belongs to no task and is left unchanged", e.Name(), l.o.Dir)
			continue
		}
		t := l.newTask(key)
		var begun bool
		t.ask(func() { // a task may report as soon as it is found, so this runs on its line
			err = t.resume(t.read())
			begun = t.begun()
		})
		if err != nil {
			return fmt.Errorf("launcher: task %v: %w", key, err)
		}
		if !begun { // an agent died while it made the directories
			l.discard(t.home)
			l.discard(t.Scratch)
			continue
		}
		if err := l.claim(t); err != nil {
			l.o.Log.Info("Task %v: %v", key, err) // the task runs, and problems of other tasks do not stop it
		}
		l.tasks[key] = t
	}
	return nil
}

// read reads the request from the record, and returns the boot ID of the record. A task without a record never reached
// its driver.
func (t *task) read() (boot string) {
	data, err := os.ReadFile(filepath.Join(t.home, homeFile))
	if err != nil {
		return ""
	}
	var record homeRecord
	request := &messages.PrepareTask{}
	if json.Unmarshal(data, &record) != nil || proto.Unmarshal(record.Request, request) != nil {
		t.l.o.Log.Info("The record of task %v is incomplete", t.Key)
		return ""
	}
	t.Owner, t.OwnerProven = request.GetOwner(), request.GetOwnerProven()
	t.prepared = record.Prepared
	t.disk.allowed = tree.Usage{Bytes: record.DiskBytes, Files: record.DiskFiles}
	t.disk.promised.Store(record.DiskPromised)
	for _, d := range t.l.o.Drivers {
		if d.Name() == record.Driver {
			t.driver = d
		}
	}
	t.take(request)
	return record.BootID
}

// resume determines the progress of the task. It reads the exit record first, which is definite evidence. Then it
// checks the lock, which only a living supervisor holds. Then it compares the boot ID, because no process survives a
// reboot.
func (t *task) resume(boot string) error {
	exit, err := supervisor.ReadExit(t.home)
	if err != nil && !errors.Is(err, supervisor.ErrTorn) {
		return err
	}
	state, wrong := supervisor.ReadState(t.home)
	if wrong != nil && !errors.Is(wrong, supervisor.ErrTorn) {
		return wrong
	}
	t.spawned = state != nil || wrong != nil
	if exit != nil {
		t.spawned = t.spawned || exit.Kind == supervisor.LaunchFailed
		t.gone(exit)
		return nil
	}
	alive, err := supervisor.Lives(t.home)
	if err != nil {
		return err
	}
	rebooted := boot != t.l.o.BootID && (boot != "" || state != nil && state.BootID != t.l.o.BootID)
	switch {
	case alive:
		t.spawned = true
		t.find()
	case rebooted && t.spawned:
		t.end(&supervisor.Exit{Kind: supervisor.Rebooted, Detail: "the node rebooted"})
	case rebooted:
		t.end(&supervisor.Exit{Kind: supervisor.NeverStarted, Detail: "the node rebooted"})
	case t.spawned:
		t.find()
	case t.prepared:
		t.phase = phasePrepared
	}
	return nil
}

// command returns the complete specification for the supervisor.
func (t *task) command(start *messages.StartTask) (*supervisor.Spec, error) {
	meet, err := start.GetRendezvous().Unpacked()
	if err != nil {
		return nil, err
	}
	meet = environment.Within(meet, t.Spec.GetNetwork())
	start.Rendezvous = meet // the order is specific to this task
	if err := t.writeHostfile(meet); err != nil {
		return nil, fault.OfMachine(err)
	}
	scratch, shown := t.driver.Scratch(&t.Task), ""
	if t.helps() {
		t.Helper, shown = t.l.o.Helper, Helper(scratch)
	}
	env := environment.Of(environment.Subject{
		Start: start, Gpus: t.Gpus, Hostfile: Hostfile(scratch), Notice: Notice(scratch), Progress: Progress(scratch),
		Helper: shown, Kubeflow: t.offerKubeflow(scratch),
	})
	spec, err := t.driver.Command(&t.Task, start, env)
	if err != nil {
		return nil, err
	}
	stop := t.Spec.GetStop()
	spec.StopSignal, spec.GraceMs = int(stop.GetSignal()), stop.GetGraceMs()
	if spec.GraceMs <= 0 {
		spec.GraceMs = t.l.o.Grace.Milliseconds()
	}
	spec.Notice = t.notice()
	spec.StopWhenLostMs, spec.HeardNs = t.Spec.GetStopWhenLostMs(), t.l.heardNs()
	spec.SegmentBytes, spec.Segments, spec.BootID = t.l.o.SegmentBytes, t.l.o.Segments, t.l.o.BootID
	return spec, nil
}

// Hostfile returns the path of the list of nodes in a task's scratch directory.
func Hostfile(scratch string) string { return filepath.Join(scratch, hostfileName) }

// writeHostfile writes the list of nodes into the scratch directory. The caller ensures that the task does not run yet.
func (t *task) writeHostfile(r *messages.Rendezvous) error {
	err := writeNew(Hostfile(t.Scratch), []byte(environment.Hostfile(r, t.Grant)), 0o644)
	if err == nil {
		path := Hostfile(t.Scratch) + environment.HydraSuffix
		err = writeNew(path, []byte(environment.HydraHostfile(r, t.Grant)), 0o644)
	}
	if err != nil {
		return fmt.Errorf("hostfile: %w", err)
	}
	return nil
}
