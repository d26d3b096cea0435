package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file owns the rendezvous of the ranks, and the ring. Each rank listens on a separate port and sends its address
// to rank 0, which is the only rank with a known address. Rank 0 waits for all addresses and sends them to all ranks.
// Then each rank connects to the next one.

// ring holds the two connections of a rank.
type ring struct {
	rank, world int
	to          net.Conn // the next rank
	from        net.Conn // the previous rank
	listener    net.Listener
	stop        func() bool
}

func (r *ring) close() {
	if r.stop != nil {
		r.stop()
	}
	for _, c := range []io.Closer{r.to, r.from, r.listener} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// greeting is the first message of a rank, to rank 0 and to the next rank.
type greeting struct {
	Job     string
	Rank    int
	Address string
}

// meet makes the ring. It fails if the context ends before all ranks are connected.
func (m *member) meet(ctx context.Context) (*ring, error) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var addresses []string
	if m.rank == 0 {
		addresses, err = m.gather(ctx, listener)
	} else {
		addresses, err = m.introduce(ctx, listener)
	}
	if err != nil {
		_ = listener.Close()
		return nil, cause(ctx, err)
	}
	r := &ring{rank: m.rank, world: m.world, listener: listener}
	if err := m.link(ctx, r, addresses[(m.rank+1)%m.world]); err != nil {
		_ = listener.Close()
		return nil, cause(ctx, err)
	}
	// The context also ends the ring: a rank that hangs must not block the others.
	r.stop = context.AfterFunc(ctx, func() {
		_ = r.to.SetDeadline(time.Unix(1, 0))
		_ = r.from.SetDeadline(time.Unix(1, 0))
	})
	return r, nil
}

// gather runs on rank 0: it receives the address of each rank, then sends all addresses to each.
func (m *member) gather(ctx context.Context, own net.Listener) ([]string, error) {
	door, err := net.Listen("tcp", m.master)
	if err != nil {
		return nil, err
	}
	defer door.Close()
	defer context.AfterFunc(ctx, func() { _ = door.Close() })()
	host, _, err := net.SplitHostPort(m.master)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, m.world)
	addresses[0] = at(host, own)
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for len(conns) < m.world-1 {
		conn, err := door.Accept()
		if err != nil {
			return nil, fmt.Errorf("%d of %d ranks came: %w", len(conns)+1, m.world, err)
		}
		var g greeting
		if err := receive(conn, &g); err != nil || g.Job != m.job {
			_ = conn.Close() // not a rank of this job: a port scan, or a task of another job
			continue
		}
		conns = append(conns, conn)
		if g.Rank < 1 || g.Rank >= m.world || addresses[g.Rank] != "" {
			return nil, fmt.Errorf("rank %d came, and is none of %d or is there twice", g.Rank, m.world)
		}
		addresses[g.Rank] = g.Address
	}
	for _, conn := range conns {
		if err := json.NewEncoder(conn).Encode(addresses); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// receive reads a line. Its timeout limits the wait for a connection that sends nothing.
func receive(conn net.Conn, what any) error {
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	// Read byte by byte, so that the data after the line stays in the connection.
	var line []byte
	for one := make([]byte, 1); len(line) < 4096; {
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, what)
		}
		line = append(line, one[0])
	}
	return errors.New("a greeting without an end")
}

// introduce runs on the other ranks: it sends the address to rank 0, then
// receives all addresses.
func (m *member) introduce(ctx context.Context, own net.Listener) ([]string, error) {
	conn, err := dial(ctx, m.master)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The local address of the connection to rank 0 is reachable for the other ranks.
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(conn).Encode(greeting{m.job, m.rank, at(host, own)}); err != nil {
		return nil, err
	}
	var addresses []string
	if err := json.NewDecoder(conn).Decode(&addresses); err != nil {
		return nil, fmt.Errorf("rank 0 went away: %w", err)
	}
	if len(addresses) != m.world {
		return nil, fmt.Errorf("rank 0 speaks of %d ranks, and we are %d", len(addresses), m.world)
	}
	return addresses, nil
}

func at(host string, l net.Listener) string {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		panic("a listener without a port: " + err.Error())
	}
	return net.JoinHostPort(host, port)
}

// dial retries until rank 0 listens, because ranks start in any order.
func dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank 0 at %s does not answer: %w", address, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// link connects to the next rank, and accepts the connection of the previous one.
func (m *member) link(ctx context.Context, r *ring, next string) error {
	dialled := make(chan error, 1)
	go func() {
		var err error
		if r.to, err = dial(ctx, next); err == nil {
			err = json.NewEncoder(r.to).Encode(greeting{Job: m.job, Rank: m.rank})
		}
		dialled <- err
	}()
	before := (m.rank + m.world - 1) % m.world
	var accepting error
	for r.from == nil && accepting == nil {
		conn, err := r.listener.Accept()
		if err != nil {
			accepting = err
			break
		}
		var g greeting
		if receive(conn, &g) != nil || g.Job != m.job || g.Rank != before {
			_ = conn.Close()
			continue
		}
		r.from = conn
	}
	if err := errors.Join(accepting, <-dialled); err != nil {
		for _, c := range []net.Conn{r.to, r.from} {
			if c != nil {
				_ = c.Close()
			}
		}
		return err
	}
	return nil
}

// allReduce replaces the vector by the sum of the vectors of all ranks. It cuts
// the vector into one chunk per rank. In world−1 steps, each rank passes a chunk
// on and adds the chunk that it receives; then each chunk is complete on one
// rank. In world−1 more steps, the complete chunks go around the ring. Each rank
// sends about twice the size of the vector, for any number of ranks.
func (r *ring) allReduce(vector []int64) error {
	if r.world == 1 {
		return nil
	}
	chunk := func(i int) []int64 {
		i = ((i % r.world) + r.world) % r.world
		return vector[i*len(vector)/r.world : (i+1)*len(vector)/r.world]
	}
	for step := range r.world - 1 {
		if err := r.pass(chunk(r.rank-step), chunk(r.rank-step-1), true); err != nil {
			return err
		}
	}
	for step := range r.world - 1 {
		if err := r.pass(chunk(r.rank+1-step), chunk(r.rank-step), false); err != nil {
			return err
		}
	}
	return nil
}

// pass sends one chunk to the next rank and receives one from the previous rank.
// It does both at once: if all ranks sent first, all would wait for each other.
func (r *ring) pass(send, receive []int64, add bool) error {
	sent := make(chan error, 1)
	data := make([]byte, 8*len(send))
	for i, x := range send {
		binary.LittleEndian.PutUint64(data[8*i:], uint64(x))
	}
	go func() {
		_, err := r.to.Write(data)
		sent <- err
	}()
	got := make([]byte, 8*len(receive))
	_, err := io.ReadFull(r.from, got)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	for i := range receive {
		x := int64(binary.LittleEndian.Uint64(got[8*i:]))
		if add {
			x += receive[i]
		}
		receive[i] = x
	}
	return nil
}
