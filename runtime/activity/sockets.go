package activity

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file counts the bytes that the TCP sockets of a task have received and that the task has not read.

// maxTable bounds the bytes of a table of sockets.
const maxTable = 4 << 20

// unread returns the unread bytes of a task's sockets.
func unread(alive []supervisor.Process) int64 {
	own := map[string]bool{} // inodes
	for _, p := range alive {
		for _, inode := range socketsOf(p.PID) {
			own[inode] = true
		}
	}
	if len(own) == 0 {
		return 0
	}
	total := int64(0)
	for _, table := range []string{"tcp", "tcp6"} {
		total += unreadIn("/proc/"+strconv.Itoa(alive[0].PID)+"/net/"+table, own)
	}
	return total
}

// socketsOf returns the inodes of the sockets of a process.
func socketsOf(pid int) (all []string) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxFiles)
	for _, name := range names {
		to, _ := os.Readlink(dir + "/" + name)
		if inode, is := strings.CutPrefix(to, "socket:["); is {
			all = append(all, strings.TrimSuffix(inode, "]"))
		}
	}
	return all
}

// unreadIn adds up the receive queues of connections in a table. The queue of a listening socket is a number of
// connections and does not count.
func unreadIn(path string, own map[string]bool) (total int64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	const established, peerClosed = "01", "08"
	lines := bufio.NewScanner(io.LimitReader(f, maxTable))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || !own[fields[9]] || fields[3] != established && fields[3] != peerClosed {
			continue
		}
		_, queue, _ := strings.Cut(fields[4], ":")
		n, _ := strconv.ParseInt(queue, 16, 64)
		total += n
	}
	return total
}
