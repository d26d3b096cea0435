package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the server of PMI-1 with clients that send what MPICH sends.

// pmiStep is a running server.
type pmiStep struct {
	t       *testing.T
	server  *pmiServer
	address string
	ended   chan error
}

func newPMIStep(t *testing.T, size int) *pmiStep {
	t.Helper()
	s, err := newPMI(make([]int, size))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	step := &pmiStep{t: t, server: s, address: listener.Addr().String(), ended: make(chan error, 1)}
	go s.accept(listener)
	go func() { step.ended <- s.serve(func() bool { return t.Context().Err() == nil }) }()
	return step
}

// pmiClient is a process of the step.
type pmiClient struct {
	*testing.T
	net.Conn
	lines *bufio.Reader
}

func (s *pmiStep) dial() *pmiClient {
	s.t.Helper()
	conn, err := net.Dial("tcp4", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(pace.Until(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return &pmiClient{s.t, conn, bufio.NewReader(conn)}
}

// join connects a rank.
func (s *pmiStep) join(rank int) *pmiClient {
	s.t.Helper()
	c := s.dial()
	c.says(fmt.Sprintf("cmd=initack pmiid=%d", s.server.first+int64(rank)))
	c.hears("cmd=initack", fmt.Sprintf("cmd=set size=%d", len(s.server.ranks)), fmt.Sprintf("cmd=set rank=%d", rank),
		"cmd=set debug=0")
	c.says("cmd=init pmi_version=1 pmi_subversion=1")
	c.hears("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	return c
}

func (c *pmiClient) says(line string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.Conn, line); err != nil {
		c.Fatal(err)
	}
}

func (c *pmiClient) hears(lines ...string) {
	c.Helper()
	for _, line := range lines {
		if got, err := c.lines.ReadString('\n'); err != nil || got != line+"\n" {
			c.Fatalf("got %q (%v), want %q", got, err, line)
		}
	}
}

// endsWith waits for the end of the step.
func (s *pmiStep) endsWith(text string) {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if err == nil || !strings.Contains(err.Error(), text) {
			s.t.Errorf("the step ended with %v, want %q", err, text)
		}
	case <-time.After(pace.Of(30 * time.Second)):
		s.t.Errorf("the step continues, want %q", text)
	}
}

// TestPMIExchange plays two MPI programs, one after the other, on three ranks. Rank 0 starts the second program before
// the others have ended the first one.
func TestPMIExchange(t *testing.T) {
	t.Parallel()
	s := newPMIStep(t, 3)
	first := make([]*pmiClient, 3)
	for rank := range first {
		first[rank] = s.join(rank)
		for line, answer := range map[string]string{ //order: the requests are independent
			"cmd=get_maxes":                                "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
			"cmd=get_appnum":                               "cmd=appnum appnum=0",
			"cmd=get_my_kvsname":                           "cmd=my_kvsname kvsname=step",
			"cmd=get_universe_size":                        "cmd=universe_size size=3",
			"cmd=get key=a-missing-1":                      "cmd=get_result rc=-1 msg=key_not_found value=unknown",
			"cmd=get kvsname=step key=PMI_process_mapping": "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))",
		} {
			first[rank].says(line)
			first[rank].hears(answer)
		}
		first[rank].says(fmt.Sprintf("cmd=put kvsname=step key=card%d value=host=%d a b", rank, rank))
		first[rank].hears("cmd=put_result rc=0 msg=success")
	}
	first[1].says("cmd=put kvsname=step key=card0 value=forged")
	first[1].hears("cmd=put_result rc=-1 msg=duplicate_key_card0")
	for rank := range first {
		first[rank].says("cmd=barrier_in")
	}
	for rank := range first {
		first[rank].hears("cmd=barrier_out")
		first[rank].says(fmt.Sprintf("cmd=get kvsname=step key=card%d", (rank+1)%3))
		first[rank].hears(fmt.Sprintf("cmd=get_result rc=0 msg=success value=host=%d a b", (rank+1)%3))
	}
	leave := func(c *pmiClient) {
		c.says("cmd=finalize")
		c.hears("cmd=finalize_ack")
		c.Close()
	}
	leave(first[0])
	second := s.join(0)
	second.says("cmd=get kvsname=step key=card0")
	second.hears("cmd=get_result rc=-1 msg=key_not_found value=unknown")
	leave(first[1])
	leave(first[2])
	leave(second)
	leave(s.join(1))
	leave(s.join(2))
	select {
	case err := <-s.ended:
		t.Errorf("the step ended: %v", err)
	default:
	}
}

// TestPMIStrangers checks that connections without the secret get no answer and do not disturb the step.
func TestPMIStrangers(t *testing.T) {
	t.Parallel()
	s := newPMIStep(t, 2)
	strangers := []*pmiClient{}
	for _, line := range []string{"cmd=initack pmiid=0", fmt.Sprintf("cmd=initack pmiid=%d", s.server.first+2),
		fmt.Sprintf("cmd=initack pmiid=%d", s.server.first-1), fmt.Sprintf("cmd=get pmiid=%d", s.server.first),
		"GET / HTTP/1.1", strings.Repeat("x", 2*pmiLineBytes), "cmd=initack pmiid=x", ""} {
		c := s.dial()
		c.says(line)
		strangers = append(strangers, c)
	}
	a := s.join(0)
	for _, c := range strangers {
		if got, err := c.lines.ReadString('\n'); err == nil || got != "" {
			t.Errorf("a stranger got %q", got)
		}
	}
	a.says("cmd=barrier_in")
	s.join(1).says("cmd=barrier_in")
	a.hears("cmd=barrier_out")
}

// TestPMIEndsStep checks that the step ends if a rank can no longer take part, because the others would wait forever.
func TestPMIEndsStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //order: each has its own step
		do   func(*pmiStep, *pmiClient)
		text string
	}{
		"abort":   {func(_ *pmiStep, c *pmiClient) { c.says("cmd=abort exitcode=3") }, "task 1 called MPI_Abort"},
		"lost":    {func(_ *pmiStep, c *pmiClient) { c.Close() }, "task 1 ended without MPI_Finalize"},
		"spawn":   {func(_ *pmiStep, c *pmiClient) { c.says("mcmd=spawn") }, "does not have (start the program with mpirun)"},
		"long":    {func(_ *pmiStep, c *pmiClient) { c.says(strings.Repeat("y", 2*pmiLineBytes)) }, "task 1 ended without"},
		"twice":   {func(s *pmiStep, _ *pmiClient) { s.join1Again() }, "task 1 started a second MPI program while"},
		"barrier": {func(_ *pmiStep, c *pmiClient) { c.says("cmd=barrier_in\ncmd=barrier_in") }, "twice at one barrier"},
		"waiting": {func(_ *pmiStep, c *pmiClient) { c.says("cmd=barrier_in"); c.Close() }, "task 1 ended without"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPMIStep(t, 3)
			s.join(0)
			c.do(s, s.join(1))
			s.endsWith(c.text)
		})
	}
}

// join1Again connects rank 1 without waiting for an answer.
func (s *pmiStep) join1Again() { s.dial().says(fmt.Sprintf("cmd=initack pmiid=%d", s.server.first+1)) }

func TestPMIMapping(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ //order: each is another step
		"0": "(vector,(0,1,1))", "0,0,1,1": "(vector,(0,2,2))", "0,0,1": "(vector,(0,1,2),(1,1,1))",
		"0,1,0,1": "(vector,(0,2,1),(0,2,1))", "0,0,1,1,2,3,4": "(vector,(0,2,2),(2,3,1))",
		strings.TrimSuffix(strings.Repeat("0,7,", 2000), ","): "",
	} {
		nodes, err := pmiNodes(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := pmiMapping(nodes); got != want {
			t.Errorf("%.40s becomes %s, want %s", text, got, want)
		}
	}
}

// TestPMIBounds checks the limits of what one process can publish.
func TestPMIBounds(t *testing.T) {
	t.Parallel()
	s := newPMIStep(t, 1)
	c := s.join(0)
	for _, line := range []string{"key=" + strings.Repeat("k", pmiKeyBytes+1) + " value=v", "value=v",
		"key=k value=" + strings.Repeat("v", pmiValueBytes+1)} {
		c.says("cmd=put kvsname=step " + line)
		c.hears("cmd=put_result rc=-1 msg=too_large")
	}
	for key := range pmiKeys {
		c.says(fmt.Sprintf("cmd=put kvsname=step key=k%d value=v", key))
		c.hears("cmd=put_result rc=0 msg=success")
	}
	c.says("cmd=put kvsname=step key=more value=v")
	c.hears("cmd=put_result rc=-1 msg=too_large")
	for _, words := range [][]string{nil, {""}, {"0,x"}, {"-1"}, {"0,"},
		{strings.Repeat("0,", pmiProcesses) + "0"}, {"1", "2"}} {
		if err := servePMI(words); err == nil || !strings.Contains(err.Error(), "--pmi") {
			t.Errorf("--pmi %v: %v", words, err)
		}
	}
}
