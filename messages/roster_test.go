package messages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// This file tests the packed list of peers, and measures its size.

// formed returns a function that names nodes by number.
func formed(format string) func(int) string {
	return func(m int) string { return fmt.Sprintf(format, m) }
}

func always(name string) func(int) string { return func(int) string { return name } }

// addressed returns an address in the usual scheme of 250 nodes per network.
func addressed(m int) string { return fmt.Sprintf("10.%d.%d.%d", m/62500, m/250%250, m%250+2) }

func racked(m int) string { return fmt.Sprintf("rack-%02d", m/16) }

// scattered returns a function that names nodes unpredictably.
func scattered(bytes int) func(int) string {
	return func(m int) string {
		r := rand.New(rand.NewPCG(uint64(m), uint64(bytes)))
		b := make([]byte, bytes)
		for i := range b {
			b[i] = 'a' + byte(r.IntN(26))
		}
		return string(b)
	}
}

// gangOn returns the peers of a gang with each tasks per node.
func gangOn(tasks, each int, node, address, rack func(int) string) []*Peer {
	peers := Many[Peer](tasks)
	for i := range peers {
		m := i / each
		if i%each > 0 {
			peers[i].Node, peers[i].Address, peers[i].Rack = peers[i-1].Node, peers[i-1].Address, peers[i-1].Rack
		} else {
			peers[i].Node, peers[i].Address, peers[i].Rack = node(m), address(m), rack(m)
		}
		peers[i].Rank = int32(i)
	}
	return peers
}

func samePeer(a, b *Peer) bool {
	return a.Rank == b.Rank && a.Node == b.Node && a.Address == b.Address && a.Rack == b.Rack
}

// rosters returns gangs of all kinds, and the maximum size of each packed list.
func rosters() map[string]struct {
	peers []*Peer
	most  int
} {
	type entry = struct {
		peers []*Peer
		most  int
	}
	regular := func(tasks, each int) []*Peer { return gangOn(tasks, each, formed("n%05d"), addressed, racked) }
	uneven := regular(64, 8)[3:] // the first node has five tasks
	for i, p := range uneven {
		p.Rank = int32(i)
	}
	gaps := regular(64, 8)
	gaps = slices.Delete(gaps, 10, 12)
	return map[string]entry{
		"one":          {regular(1, 1), 32},
		"few":          {regular(64, 8), 64},
		"digits grow":  {gangOn(300, 1, formed("n%d"), formed("a%d.example"), always("")), 32},
		"one address":  {gangOn(64, 1, formed("n%d"), always("127.0.0.1"), always("r")), 320},
		"no digits":    {gangOn(8, 2, scattered(3), scattered(3), scattered(3)), 128},
		"uneven":       {uneven, 64},
		"gaps":         {gaps, 64},
		"interleaved":  {[]*Peer{{Rank: 0, Node: "a"}, {Rank: 1, Node: "b"}, {Rank: 2, Node: "a"}}, 32},
		"1,024 ranks":  {regular(1_024, 8), 256},
		"8,192 ranks":  {regular(8_192, 8), 2 << 10},
		"65,536 ranks": {regular(65_536, 8), 16 << 10},
		"65,536 strange": {
			gangOn(65_536, 1, scattered(MaxIDBytes), scattered(MaxValueBytes), scattered(MaxValueBytes)), maxRosterBytes,
		},
	}
}

// TestRoster checks that unpacking restores the peers of any gang, and that the list of a usual gang is small.
func TestRoster(t *testing.T) {
	for name, c := range rosters() {
		data := PackRoster(c.peers)
		if len(data) > c.most {
			t.Errorf("%s takes %d bytes, more than %d", name, len(data), c.most)
		}
		got, err := unpackRoster(data)
		if err != nil || !slices.EqualFunc(got, c.peers, samePeer) {
			t.Errorf("%s: %d of %d peers, %v", name, len(got), len(c.peers), err)
		}
		meet, err := (&Rendezvous{Address: "a", Port: 1, Roster: data}).Unpacked()
		if err != nil || len(meet.Peers) != len(c.peers) || meet.Address != "a" || meet.Port != 1 {
			t.Errorf("%s: unpacked it is %d peers at %s:%d, %v",
				name, len(meet.GetPeers()), meet.GetAddress(), meet.GetPort(), err)
		}
	}
}

// TestFollowing checks the predicted next names.
func TestFollowing(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "n": "n", "n7": "n8", "n9": "n10", "n09": "n10", "n99": "n100", "n0099": "n0100", "9": "10", "a19b": "a20b",
		"a-9.room": "a-10.room", "10.0.0.255": "10.0.0.256", "n1.rack2": "n1.rack3", "a1b": "a2b",
	} {
		if got := following(name); got != want || !follows(name, want) {
			t.Errorf("%q is followed by %q, want %q", name, got, want)
		}
		for _, other := range []string{name + "0", want + "0", "x" + want, name, ""} {
			if other != want && follows(name, other) {
				t.Errorf("%q is taken to follow %q", other, name)
			}
		}
	}
}

// TestBrokenRoster checks that invalid data is refused, and never decodes to more peers than a gang can have.
func TestBrokenRoster(t *testing.T) {
	whole := PackRoster(gangOn(64, 8, formed("n%d"), addressed, racked))
	for n := 1; n < len(whole); n++ {
		if peers, err := unpackRoster(whole[:n]); err == nil && len(peers) >= 64 {
			t.Errorf("of %d bytes %d peers are made", n, len(peers))
		}
	}
	long := strings.Repeat("9", MaxIDBytes)
	for name, data := range map[string][]byte{
		"nobody":             {0, 9},
		"unknown fields":     {0x80, 1},
		"no tasks":           {rosterNode, 0, 0, 1, 'n'},
		"too many":           append(PackRoster([]*Peer{{Node: "n1"}}), 0, 0x80, 0x80, 0x04),
		"a name that grows":  append(PackRoster([]*Peer{{Node: long}}), 0, 1),
		"more than is there": {rosterNode | rosterTasks, 0, 0, 200, 'n', 1},
		"a rank beyond":      {rosterNode | rosterTasks | rosterFirst, 0, 0, 1, 'n', 1, 0xff, 0xff, 0xff, 0xff, 0x07},
	} {
		if peers, err := unpackRoster(data); err == nil {
			t.Errorf("%s: %d peers", name, len(peers))
		}
	}
}

// FuzzRoster checks that any bytes are either refused or decode to a list that packs to an equal list.
func FuzzRoster(f *testing.F) {
	for _, c := range rosters() {
		if len(c.peers) <= 64 {
			f.Add(PackRoster(c.peers))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		peers, err := unpackRoster(data)
		if err != nil {
			return
		}
		if len(peers) > MaxGangTasks {
			t.Fatalf("%d peers", len(peers))
		}
		again, err := unpackRoster(PackRoster(peers))
		if err != nil || !slices.EqualFunc(again, peers, samePeer) {
			t.Fatalf("%d peers, and again %d: %v", len(peers), len(again), err)
		}
	})
}

// BenchmarkStartBytes measures the bytes that the leader sends to start a gang of 8 tasks per node, with plain and with
// packed lists.
func BenchmarkStartBytes(b *testing.B) {
	domain := ".a-very-long-name-of-a-room.department.of.some.institute.example.org"
	for _, ranks := range []int{1_024, 8_192, 65_536} {
		for _, room := range []struct {
			name    string
			node    func(int) string
			address func(int) string
		}{
			{"usual", formed("n%05d"), addressed},
			{"long", formed("node-%05d" + domain), formed("node-%05d" + domain)},
			{"scattered", scattered(36), scattered(64)},
		} {
			peers := gangOn(ranks, 8, room.node, room.address, racked)
			order := &Order{Epoch: 9, Token: &Token{Epoch: 9, Counter: 9_999}, Job: "j123456", Node: peers[0].Node, Seq: 9_999,
				Incarnation: &Incarnation{
					BootId: "3f5f3a0c-8d1e-4b0a-9a55-6f0d8f2f7c11", StartedNs: 1 << 50}}
			start := &Start{
				Order: order, Rendezvous: &Rendezvous{Address: peers[0].Address, Port: 20000, Peers: peers},
				JobName: "llama", Run: 1,
			}
			b.Run(fmt.Sprintf("ranks=%d,%s", ranks, room.name), func(b *testing.B) {
				machines := float64(ranks / 8)
				plain := float64(Size(start))
				var data []byte
				for b.Loop() {
					data = PackRoster(peers)
				}
				bare := &Start{Order: order, Rendezvous: &Rendezvous{Address: peers[0].Address, Port: 20000},
					JobName: "llama", Run: 1,
					Roster: &Roster{Digest: RosterDigest(data), SizeBytes: int32(len(data))}}
				again := float64(Size(bare))
				b.ReportMetric(plain*machines, "bytes-before")
				b.ReportMetric((again+float64(len(data)))*machines, "bytes")
				b.ReportMetric(again*machines, "bytes-again")
				b.ReportMetric(float64(len(data)), "list-bytes")
			})
		}
	}
}
