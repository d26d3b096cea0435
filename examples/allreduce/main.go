// Command allreduce is a small gang: each rank contributes a vector, the ranks
// add the vectors up around a ring, and each rank checks the sum. It needs only
// the standard library and the environment of a task, so it shows whether a
// cluster starts complete and connected gangs.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// member holds the position of a rank in its gang.
type member struct {
	job         string
	rank, world int
	master      string // host:port of rank 0
	elements    int
	timeout     time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := fromEnvironment(os.Getenv)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, m.timeout)
		defer cancel()
		err = m.run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	}
}

// fromEnvironment reads the variables that each task of a job has.
func fromEnvironment(get func(string) string) (*member, error) {
	m := &member{job: get("SYNAPSE_JOB_ID"), elements: 1 << 18, timeout: time.Minute}
	for _, v := range []struct {
		name     string
		to       *int
		optional bool
	}{{"SYNAPSE_RANK", &m.rank, false}, {"SYNAPSE_WORLD_SIZE", &m.world, false},
		{"ALLREDUCE_ELEMENTS", &m.elements, true}} {
		text := get(v.name)
		if text == "" && v.optional {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s is %q: run this as the command of a Synapse job", v.name, text)
		}
		*v.to = n
	}
	if text := get("ALLREDUCE_TIMEOUT"); text != "" {
		var err error
		if m.timeout, err = time.ParseDuration(text); err != nil || m.timeout <= 0 {
			return nil, fmt.Errorf("ALLREDUCE_TIMEOUT is %q, and must be a time such as 30s", text)
		}
	}
	if m.rank >= m.world || m.elements < 1 || m.elements > 1<<26 {
		return nil, fmt.Errorf("rank %d of %d with %d elements makes no sense", m.rank, m.world, m.elements)
	}
	host, port := get("MASTER_ADDR"), get("MASTER_PORT")
	if host == "" { // The hosts are in the order of the ranks: the first is the host of rank 0.
		host, _, _ = strings.Cut(get("SYNAPSE_HOSTS"), ",")
	}
	if host == "" || port == "" {
		return nil, fmt.Errorf("neither MASTER_ADDR nor SYNAPSE_HOSTS with MASTER_PORT say where rank 0 is")
	}
	m.master = net.JoinHostPort(host, port)
	return m, nil
}

// run connects to the other ranks, adds up, and checks the sum.
func (m *member) run(ctx context.Context, out io.Writer) error {
	ring, err := m.meet(ctx)
	if err != nil {
		return fmt.Errorf("rank %d of %d: meeting the others: %w", m.rank, m.world, err)
	}
	defer ring.close()
	began := time.Now()
	vector := contribution(m.job, m.rank, m.elements)
	if err := ring.allReduce(vector); err != nil {
		return fmt.Errorf("rank %d of %d: adding up: %w", m.rank, m.world, cause(ctx, err))
	}
	took := time.Since(began)
	if err := m.check(vector); err != nil {
		return fmt.Errorf("rank %d of %d: %w", m.rank, m.world, err)
	}
	fmt.Fprintf(out, "rank %d of %d: the sum of %d numbers is right, checksum %08x, in %s\n", m.rank, m.world, m.elements,
		checksum(vector), took.Round(time.Microsecond))
	return nil
}

// cause returns the cause of an ended context rather than the error of a closed connection.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %v", ctx.Err(), err)
	}
	return err
}

// check compares the sum with the expected sum. The contribution of each rank
// follows from its number.
func (m *member) check(sum []int64) error {
	want := make([]int64, m.elements)
	for rank := range m.world {
		for i, x := range contribution(m.job, rank, m.elements) {
			want[i] += x
		}
	}
	for i := range want {
		if sum[i] != want[i] {
			return fmt.Errorf("element %d is %d, and must be %d", i, sum[i], want[i])
		}
	}
	return nil
}

// contribution returns the vector of a rank. It depends on the job, so that check
// detects data from the ring of another job.
func contribution(job string, rank, elements int) []int64 {
	x := uint64(rank+1) * 0x9e3779b97f4a7c15
	for _, c := range []byte(job) {
		x = (x ^ uint64(c)) * 0x100000001b3
	}
	vector := make([]int64, elements)
	for i := range vector {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		vector[i] = int64(x >> 24) // 40 bits: the sum of all ranks stays a number
	}
	return vector
}

// checksum returns a number that is equal on all ranks and differs between jobs.
func checksum(vector []int64) uint32 {
	sum := uint32(2166136261)
	for _, x := range vector {
		sum = (sum ^ uint32(x) ^ uint32(x>>32)) * 16777619
	}
	return sum
}
