package e2e

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// This file tests that a hang of real processes on two nodes is found, shown and, if the job wants it, ended.

// lockstep is a rank of a gang that exchanges a byte with rank 0 in every step. After five steps, rank 2 of the first
// attempt sleeps.
const lockstep = `python3 -SEc '
import os, socket, time
env = os.environ
rank, n, port = int(env["RANK"]), int(env["WORLD_SIZE"]), int(env["MASTER_PORT"])
if rank == 0:
    server = socket.create_server((env["MASTER_ADDR"], port))
    peers = [server.accept()[0] for _ in range(n - 1)]
else:
    while True:
        try:
            peers = [socket.create_connection((env["MASTER_ADDR"], port))]
            break
        except OSError:
            time.sleep(0.1)
for step in range(1, 100000):
    time.sleep(0.3)
    if rank == 2 and step == 6 and env["SYNAPSE_RUN"] == "1":
        time.sleep(3600)
    if rank:
        peers[0].sendall(b"x")
    for peer in peers:
        if not peer.recv(1):
            raise SystemExit(3)
    if not rank:
        for peer in peers:
            peer.sendall(b"x")
    with open(env["SYNAPSE_PROGRESS"], "a") as file:
        file.write("{\"step\": %d, \"total\": 100}\n" % step)'`

// TestHang checks that the rank that stopped first is named in the lists, that the time limit and the restarts are not
// touched by a report, and that a job with the action restart continues in a second attempt.
func TestHang(t *testing.T) {
	able.Need(t, able.Program("python3"))
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "2")
	c.node("n2", "r1", "--cpus", "2")
	args := []string{"--replicas", "4", "--cpu", "1", "--grace", "1s", "--hang"}
	id := c.order(lockstep, append(args, "floor=4s")...)
	s := c.until(id, "found to hang", func(s *messages.JobStatus) bool { return s.GetStall().GetRank() == 2 })
	if s.Phase != "running" || !strings.HasPrefix(s.Reason, "stalled: rank 2 on n2 sleeps in ") ||
		!strings.HasSuffix(s.Reason, "; ranks 0-1, 3 wait for it") {
		t.Errorf("%s: %s", s.Phase, s.Reason)
	}
	c.cli("get", "jobs").wants(t, 0, "stalled at 5%", "")
	c.cli("describe", "job", id).wants(t, 0, "all other ranks wait for a peer", "")
	c.cli("get", "job", id, "-o", "json").wants(t, 0, `"does": "sleep"`, "")
	c.cli("get", "events").wants(t, 0, "stalled: rank 2 on n2 sleeps", "")
	c.cli("cancel", id).wants(t, 0, "", "")

	id = c.order(lockstep, append(args, "then=restart,floor=4s", "--restarts", "1")...)
	s = c.until(id, "in its second attempt", func(s *messages.JobStatus) bool {
		return s.GetRecord().GetRuns() == 2 && s.GetProgress().GetStep() > 6
	})
	if v := s.Record.LastFailure; v.GetRank() != 2 || !v.GetCharged() || s.Record.Failures != 1 {
		t.Errorf("%d failures, %v", s.Record.Failures, v)
	}
	c.cli("describe", "job", id, "-o", "json").wants(t, 0, "stalled: rank 2", "")
	c.cli("cancel", id).wants(t, 0, "", "")
}
