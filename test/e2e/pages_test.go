package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/crowd"
)

// This file tests the cost of web pages that read nothing, next to nodes whose heartbeats must be received.

// figure returns a metric of the scheduler, as Prometheus would read it, or 0 if there is none with that name.
func (c *cluster) figure(name string) float64 {
	c.t.Helper()
	answer, err := http.Get("http://" + c.address + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// eventually waits until a condition holds, and calls meanwhile once a second.
func (c *cluster) eventually(what string, holds func() bool, meanwhile func()) {
	c.t.Helper()
	for deadline := pace.Until(2 * time.Minute); !holds(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			c.t.Fatalf("timeout: %s did not happen", what)
		}
		meanwhile()
	}
}

// opened requests the stream of a web page, and returns the connection after the answer began.
func (c *cluster) opened() net.Conn {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	c.t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /stream HTTP/1.1\r\nHost: %s\r\n\r\n", c.address)
	_ = conn.SetReadDeadline(pace.Until(time.Minute))
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		c.t.Errorf("a page got %q (%v)", answer, err)
	}
	return conn
}

// silentPages opens pages that read only the beginning of the stream.
func (c *cluster) silentPages(many int) {
	c.t.Helper()
	var wait sync.WaitGroup
	const side = 8
	for worker := range side {
		wait.Go(func() {
			for i := worker; i < many && !c.t.Failed(); i += side {
				c.opened()
			}
		})
	}
	wait.Wait()
}

// TestSilentPages opens a thousand pages that read nothing of a cluster that changes all the time. The scheduler must
// need less than 50 MB for them. A page that reads must get the changes. Every node must be heard as usual, so that
// none is declared dead. server/web tests that a page with too much unsent data is closed.
func TestSilentPages(t *testing.T) {
	const many, machines, beats, most = 1000, 32, 3, 50 << 20
	pace.Crowd(t)
	c := newCluster(t)
	for i := range machines {
		machine := crowd.Join(i, 8, c.address)
		t.Cleanup(machine.Close)
	}
	nothing := func() {}
	c.eventually("all machines are up", func() bool { return c.figure(`synapse_nodes{phase="up"}`) == machines }, nothing)
	change := func() { c.cancel(c.submit(gang(2, 8, "true"))) }
	for range 20 {
		change() // the scheduler has done as much without them
	}
	pid, threads := c.scheduler.cmd.Process.Pid, c.figure("go_goroutines")
	before := resident(t, pid)
	c.silentPages(many)
	grown, began, said := resident(t, pid)-before, time.Now(), len(c.scheduler.said())
	c.eventually("each machine was heard three times", func() bool {
		grown = max(grown, resident(t, pid)-before)
		for i := range machines {
			if strings.Count(c.scheduler.said()[said:], "Heartbeat from "+crowd.Name(i)+"\n") < beats {
				return false
			}
		}
		return true
	}, change)
	passed := time.Since(began)

	news := c.submit(gang(1, 8, "true"))
	c.await(news, messages.PhaseRunning)
	for page := bufio.NewScanner(c.opened()); ; {
		if !page.Scan() {
			t.Fatalf("a page that reads does not get the change of %s: %v", news, page.Err())
		}
		if strings.Contains(page.Text(), news) {
			break
		}
	}
	if open := c.figure("go_goroutines") - threads; open < many {
		t.Errorf("only %.0f pages can still be open", open)
	}
	c.eventually("they take less than 50 MB", func() bool { return resident(t, pid)-before < most }, nothing)
	t.Logf(
		"%d pages that read nothing: at most %d MB more, including garbage; all of %d nodes "+
			"were heard %d times in %s", many, grown>>20, machines, beats, passed.Round(100*time.Millisecond))
	if dead := c.figure(`synapse_nodes{phase="dead"}`); dead != 0 || strings.Contains(c.scheduler.said(), "is DEAD") {
		t.Errorf("%.0f nodes are dead; output of the scheduler:\n%s", dead, c.scheduler.said())
	}
}
