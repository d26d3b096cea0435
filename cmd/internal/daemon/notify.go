package daemon

import (
	"net"
	"os"
	"strconv"
	"time"
)

// This file owns what a service manager is told: that the program is ready, that it lives, that it ends. The way is
// systemd's (sd_notify(3)): words in datagrams to a socket that the environment names.

// Ready tells the service manager, if there is one that wants to know, that this program does its work now, and then
// again and again that it lives, where it is watched. What is returned says that it ends. The names go out of the
// environment: what this process starts must not speak for it.
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

// tell sends a word. An abstract socket begins with @ for systemd and for package net alike. A manager that does not
// listen changes nothing: it will say itself what it missed.
func tell(socket, word string) {
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(word))
}
