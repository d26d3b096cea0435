package daemon

import (
	"net"
	"os"
	"strconv"
	"time"
)

// This file notifies a service manager that the program is ready, alive or ending. It uses systemd's protocol
// (sd_notify(3)): datagrams to a socket that the environment names.

// Ready notifies the service manager, if there is one, that this program is ready. If systemd has enabled the
// watchdog, it then reports at intervals that the program is alive. Call ending to report the end. Ready removes
// the variables from the environment, so that child processes cannot send notifications.
func Ready() (ending func()) {
	socket, usec := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC")
	watched := os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if socket == "" {
		return func() {}
	}
	tell(socket, "READY=1")
	over := make(chan struct{})
	us, err := strconv.ParseInt(usec, 10, 64)
	if err == nil && us > 1 && (watched == "" || watched == strconv.Itoa(os.Getpid())) {
		go beat(socket, time.Duration(us)*time.Microsecond/2, over)
	}
	return func() {
		close(over)
		tell(socket, "STOPPING=1")
	}
}

func beat(socket string, every time.Duration, over <-chan struct{}) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			tell(socket, "WATCHDOG=1")
		case <-over:
			return
		}
	}
}

// tell sends one notification. Both systemd and package net write an abstract socket with a leading @. An error is
// ignored, because the manager reports a missing notification itself.
func tell(socket, word string) {
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(word))
}
