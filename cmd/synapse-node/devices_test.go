package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/test/able/pace"
)

// nvidia replaces nvidia-smi by a program that prints the content of a file, and fails without one.
func nvidia(t *testing.T) (says string) {
	t.Helper()
	dir := t.TempDir()
	says = filepath.Join(dir, "says")
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n[ \"$1\" = -q ] && cat "+says+"\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return says
}

// document writes nvidia-smi's output for one GPU.
func document(t *testing.T, file, reset string) {
	t.Helper()
	text := `<nvidia_smi_log><gpu id="00000000:01:00.0"><product_name>NVIDIA H100</product_name><uuid>GPU-1</uuid><minor_number>0</minor_number>
		<gpu_reset_status><reset_required>` + reset + `</reset_required></gpu_reset_status></gpu></nvidia_smi_log>`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func recordOf(t *testing.T) gpu.Record {
	return gpu.Record{File: filepath.Join(t.TempDir(), "gpus"), BootID: "boot"}
}

// TestDevicesAgain checks that an agent that restarts within the same boot does not wait for a slow driver, and
// logs this.
func TestDevicesAgain(t *testing.T) {
	says := nvidia(t)
	document(t, says, "No")
	record := recordOf(t)
	if _, err := (&options{gpus: -1}).findDevices(record, host.NewLog(io.Discard, false)); err != nil {
		t.Fatal(err)
	}
	slow := "#!/bin/sh\nsleep 20\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(says), "nvidia-smi"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	began := time.Now()
	gpus, err := (&options{gpus: -1}).findDevices(record, host.NewLog(&told, false))
	if took := time.Since(began); err != nil || len(gpus.found.Devices) != 1 || took > pace.Of(10*time.Second) ||
		!strings.Contains(told.String(), "that an earlier start detected") {
		t.Errorf("%v after %v: %s", err, took, told.String())
	}
}

// TestDevices checks that the agent's own watch notifies the Node of a failed GPU.
func TestDevices(t *testing.T) {
	says := nvidia(t)
	document(t, says, "No")
	var told strings.Builder
	log := host.NewLog(&told, false)
	gpus, err := (&options{gpus: -1}).findDevices(recordOf(t), log)
	if err != nil || len(gpus.found.Devices) != 1 || !strings.Contains(told.String(), "GPU-1: h100") {
		t.Fatal(gpus, err, told.String())
	}
	document(t, says, "Yes")
	h := host.New(host.NewLog(io.Discard, false))
	faults := make(chan *messages.GpuFaulted, 1)
	node := actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.GpuFaulted); ok {
			faults <- m
		}
	}, actor.WithMailbox(link.Mailbox))
	if _, err := h.System().Root.SpawnNamed(node, actors.NodePath); err != nil {
		t.Fatal(err)
	}
	defer gpus.watch(h, host.NewLog(io.Discard, false)).Close()
	select {
	case m := <-faults:
		if m.GpuId != "GPU-1" || !strings.Contains(m.Detail, "reset") {
			t.Error(m)
		}
	case <-time.After(pace.Of(time.Minute)):
		t.Error("the Node heard nothing")
	}
}

// TestDeclaredDevices checks that declared GPUs are not checked, and that the log explains how to declare them.
func TestDeclaredDevices(t *testing.T) {
	nvidia(t)
	for n, want := range map[int]string{0: "", 2: "", -1: "--gpus N", 1_000_000: "0 to 1000"} {
		gpus, err := (&options{gpus: n, gpuType: "x"}).findDevices(recordOf(t), host.NewLog(io.Discard, false))
		if want == "" && (err != nil || len(gpus.found.Devices) != n) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, %v", n, gpus, err)
		}
	}
}
