package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file implements --pmi: the server of PMI-1, the protocol by which the ranks of MPICH find each other. srun in a
// job starts the server for each step with several processes. Every process gets the address as PMI_PORT and a secret
// number as PMI_ID, and connects only if it is a program of MPI.

const (
	pmiProcesses  = 16384 // the largest number of processes of a step
	pmiKeyBytes   = 64
	pmiValueBytes = 1024
	pmiKeys       = 256  // the largest number of keys that one process may publish
	pmiLineBytes  = 4096 // the longest line of a process
	pmiRounds     = 64   // how many MPI programs one process may be ahead of the others
	pmiGreetings  = 16   // how many connections may greet at the same time
	pmiGreeting   = 10 * time.Second
	pmiPause      = time.Second // the pause after a wrong secret, which makes guessing slow
)

// pmiRound is one MPI program. If a process starts several programs one after the other, each is a round.
type pmiRound struct {
	values  map[string]string
	waiting []net.Conn
	settled int // how many processes have ended it
}

// pmiRank is a process of the step.
type pmiRank struct {
	rank, began, keys int
	conn              net.Conn // nil between two programs
	round             *pmiRound
	greeted, ended    bool
}

// pmiServer owns the state of a step. Only serve reads and writes this state.
type pmiServer struct {
	ranks  []pmiRank
	rounds map[int]*pmiRound
	first  int64 // the secret of rank 0; the next rank has the next number
	events chan pmiEvent

	mapping string // which ranks share a node, or empty
}

// pmiEvent is a connection that knows the secret of a rank, a line of this connection, or its end.
type pmiEvent struct {
	rank   int
	conn   net.Conn
	line   string
	starts bool
	ends   bool
}

// servePMI serves a step with some processes until its srun ends the server. It prints the port and the secret of
// rank 0.
func servePMI(args []string) error {
	if len(args) != 1 {
		return errors.New("--pmi takes the index of the node of each process, such as 0,0,1,1")
	}
	nodes, err := pmiNodes(args[0])
	if err != nil {
		return err
	}
	s, err := newPMI(nodes)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port, s.first)
	_ = os.Stdout.Close()
	go s.accept(listener)
	srun := os.Getppid()
	if err := s.serve(func() bool { return os.Getppid() == srun }); err != nil {
		fmt.Fprintln(os.Stderr, "srun: error:", err)
		return syscall.Kill(srun, syscall.SIGTERM)
	}
	return nil
}

// pmiNodes parses the index of the node of each process.
func pmiNodes(text string) ([]int, error) {
	words := strings.Split(text, ",")
	if len(words) > pmiProcesses {
		return nil, fmt.Errorf("--pmi: the step has %d processes, and at most %d are possible", len(words), pmiProcesses)
	}
	nodes := make([]int, len(words))
	for i, word := range words {
		node, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("--pmi: %q is not the index of a node", word)
		}
		nodes[i] = int(node)
	}
	return nodes, nil
}

// pmiMapping returns which ranks share a node, as MPICH reads it: (first node, number of nodes, ranks on each). Without
// a mapping, MPICH compares host names, which containers on different nodes may share. A mapping that is too long is
// left out.
func pmiMapping(nodes []int) string {
	var parts [][3]int
	for at := 0; at < len(nodes); {
		ranks := 1
		for at+ranks < len(nodes) && nodes[at+ranks] == nodes[at] {
			ranks++
		}
		if n := len(parts) - 1; n >= 0 && parts[n][2] == ranks && parts[n][0]+parts[n][1] == nodes[at] {
			parts[n][1]++
		} else {
			parts = append(parts, [3]int{nodes[at], 1, ranks})
		}
		at += ranks
	}
	var text strings.Builder
	text.WriteString("(vector")
	for _, p := range parts {
		fmt.Fprintf(&text, ",(%d,%d,%d)", p[0], p[1], p[2])
	}
	text.WriteString(")")
	if text.Len() > pmiValueBytes {
		return ""
	}
	return text.String()
}

// newPMI draws the secret. MPICH reads PMI_ID as a positive int.
func newPMI(nodes []int) (*pmiServer, error) {
	size := len(nodes)
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	first := binary.BigEndian.Uint64(random[:])%uint64(1<<31-1-size) + 1
	s := &pmiServer{ranks: make([]pmiRank, size), rounds: map[int]*pmiRound{}, first: int64(first),
		events: make(chan pmiEvent), mapping: pmiMapping(nodes)}
	for rank := range s.ranks {
		s.ranks[rank].rank = rank
	}
	return s, nil
}

// accept lets connections in that know a secret.
func (s *pmiServer) accept(listener net.Listener) {
	room := make(chan struct{}, pmiGreetings)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		room <- struct{}{}
		go func() {
			reader := bufio.NewReaderSize(conn, pmiLineBytes)
			rank, err := s.greet(conn, reader)
			if err != nil {
				time.Sleep(pmiPause)
				_ = conn.Close()
			}
			<-room
			if err == nil {
				s.follow(rank, conn, reader)
			}
		}()
	}
}

// greet reads the first line of a connection, which has the secret of a rank.
func (s *pmiServer) greet(conn net.Conn, reader *bufio.Reader) (int, error) {
	if err := conn.SetReadDeadline(time.Now().Add(pmiGreeting)); err != nil {
		return 0, err
	}
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	words := pmiWords(string(line))
	id, err := strconv.ParseInt(words["pmiid"], 10, 64)
	if err != nil || words["cmd"] != "initack" || id < s.first || id >= s.first+int64(len(s.ranks)) {
		return 0, errors.New("the secret is wrong")
	}
	return int(id - s.first), conn.SetReadDeadline(time.Time{})
}

// follow passes the lines of a rank on.
func (s *pmiServer) follow(rank int, conn net.Conn, reader *bufio.Reader) {
	s.events <- pmiEvent{rank: rank, conn: conn, starts: true}
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			s.events <- pmiEvent{rank: rank, conn: conn, ends: true}
			_ = conn.Close()
			return
		}
		s.events <- pmiEvent{rank: rank, conn: conn, line: string(line)}
	}
}

// serve handles the events. It returns an error if the step must end, and nil if srun has ended.
func (s *pmiServer) serve(alive func() bool) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !alive() {
				return nil
			}
		case e := <-s.events:
			if err := s.on(e); err != nil {
				return err
			}
		}
	}
}

func (s *pmiServer) on(e pmiEvent) error {
	r := &s.ranks[e.rank]
	switch {
	case e.starts:
		return s.join(r, e.conn)
	case r.conn != e.conn: // a connection that was refused
		return nil
	case !e.ends:
		return s.answer(r, e.line)
	}
	if r.greeted && !r.ended {
		return fmt.Errorf("task %d ended without MPI_Finalize, so the step ends", r.rank)
	}
	s.settle(r)
	return nil
}

// join connects a rank with the next program.
func (s *pmiServer) join(r *pmiRank, conn net.Conn) error {
	switch {
	case r.ended: // the end of the old connection is noticed later
		s.settle(r)
	case r.conn != nil:
		_ = conn.Close()
		return fmt.Errorf("task %d started a second MPI program while the first one runs, so the step ends", r.rank)
	}
	round := s.rounds[r.began]
	if round == nil {
		if len(s.rounds) == pmiRounds {
			return fmt.Errorf("task %d started %d MPI programs that other tasks have not started, so the step ends", r.rank,
				pmiRounds)
		}
		round = &pmiRound{values: map[string]string{}}
		if s.mapping != "" {
			round.values["PMI_process_mapping"] = s.mapping
		}
		s.rounds[r.began] = round
	}
	r.conn, r.round, r.keys = conn, round, 0
	r.began++
	return s.send(r, fmt.Sprintf("cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0", len(s.ranks), r.rank))
}

// settle ends a program of one process. A program that has ended in all processes is forgotten.
func (s *pmiServer) settle(r *pmiRank) {
	r.conn, r.ended, r.greeted = nil, false, false
	r.round.settled++
	if r.round.settled == len(s.ranks) {
		delete(s.rounds, r.began-1)
	}
}

// answer handles a line of a rank.
func (s *pmiServer) answer(r *pmiRank, line string) error {
	words := pmiWords(line)
	switch words["cmd"] {
	case "init":
		r.greeted = true
		if words["pmi_version"] != "1" {
			return s.send(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
		}
		return s.send(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	case "get_maxes":
		return s.send(r, fmt.Sprintf("cmd=maxes kvsname_max=256 keylen_max=%d vallen_max=%d", pmiKeyBytes, pmiValueBytes))
	case "get_appnum":
		return s.send(r, "cmd=appnum appnum=0")
	case "get_universe_size":
		return s.send(r, fmt.Sprintf("cmd=universe_size size=%d", len(s.ranks)))
	case "get_my_kvsname":
		return s.send(r, "cmd=my_kvsname kvsname=step")
	case "put":
		return s.put(r, line)
	case "get":
		if value, has := r.round.values[words["key"]]; has {
			return s.send(r, "cmd=get_result rc=0 msg=success value="+value)
		}
		return s.send(r, "cmd=get_result rc=-1 msg=key_not_found value=unknown")
	case "barrier_in":
		return s.barrier(r)
	case "finalize":
		r.ended = true
		return s.send(r, "cmd=finalize_ack")
	case "abort":
		return fmt.Errorf("task %d called MPI_Abort, so the step ends", r.rank)
	}
	return fmt.Errorf("task %d requested %.64q of PMI, which srun does not have (start the program with mpirun), so the "+
		"step ends", r.rank, words["cmd"])
}

// put publishes a value, which may contain spaces.
func (s *pmiServer) put(r *pmiRank, line string) error {
	head, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " value=")
	key := pmiWords(head)["key"]
	_, has := r.round.values[key]
	switch {
	case key == "" || len(key) > pmiKeyBytes || len(value) > pmiValueBytes || !has && r.keys == pmiKeys:
		return s.send(r, "cmd=put_result rc=-1 msg=too_large")
	case has:
		return s.send(r, "cmd=put_result rc=-1 msg=duplicate_key_"+key)
	}
	r.keys++
	r.round.values[key] = value
	return s.send(r, "cmd=put_result rc=0 msg=success")
}

// barrier releases all processes of a program after the last one has come.
func (s *pmiServer) barrier(r *pmiRank) error {
	for _, conn := range r.round.waiting {
		if conn == r.conn {
			return fmt.Errorf("task %d waits twice at one barrier, so the step ends", r.rank)
		}
	}
	r.round.waiting = append(r.round.waiting, r.conn)
	if len(r.round.waiting) < len(s.ranks) {
		return nil
	}
	all := r.round.waiting
	r.round.waiting = nil
	for _, conn := range all {
		if _, err := io.WriteString(conn, "cmd=barrier_out\n"); err != nil {
			continue // the end of the connection follows as an event
		}
	}
	return nil
}

// send answers a rank. If the connection is lost, its end follows as an event.
func (s *pmiServer) send(r *pmiRank, text string) error {
	_, _ = io.WriteString(r.conn, text+"\n")
	return nil
}

// pmiWords parses a line of KEY=VALUE words.
func pmiWords(line string) map[string]string {
	words := map[string]string{}
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		words[key] = value
	}
	return words
}
