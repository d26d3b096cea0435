package actors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the ledger's record as bytes: a mark, a version, a checksum,
// then a LedgerRecord. A record that is torn or corrupt is known as such and is
// never read in part.

const (
	recordMark    = "SYNL"
	recordVersion = 1
	recordHead    = len(recordMark) + 4 + 4 // the mark, the version, the checksum of version and body
)

var (
	errRecord      = errors.New("the ledger's record is corrupt")
	errRecordNewer = errors.New("the ledger's record was written by a newer agent")
	recordTable    = crc32.MakeTable(crc32.Castagnoli)
)

// encodeRecord cannot fail: a record that we made ourselves and that cannot be
// written is a broken invariant.
func encodeRecord(r *messages.LedgerRecord) []byte {
	data := make([]byte, recordHead)
	copy(data, recordMark)
	binary.LittleEndian.PutUint32(data[4:], recordVersion)
	data, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(data, r)
	if err != nil {
		panic("the ledger's record cannot be encoded: " + err.Error())
	}
	binary.LittleEndian.PutUint32(data[8:], recordSum(data))
	return data
}

func recordSum(data []byte) uint32 {
	return crc32.Update(crc32.Checksum(data[4:8], recordTable), recordTable, data[recordHead:])
}

func decodeRecord(data []byte) (*messages.LedgerRecord, error) {
	if len(data) < recordHead || string(data[:4]) != recordMark || binary.LittleEndian.Uint32(data[8:]) != recordSum(data) {
		return nil, fmt.Errorf("%w: %d bytes", errRecord, len(data))
	}
	if v := binary.LittleEndian.Uint32(data[4:]); v != recordVersion {
		return nil, fmt.Errorf("%w: version %d, known is %d", errRecordNewer, v, recordVersion)
	}
	r := &messages.LedgerRecord{}
	if err := proto.Unmarshal(data[recordHead:], r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	return r, nil
}

// DecodeRecord reads a record, for whoever checks what is on a machine's disk.
func DecodeRecord(data []byte) (*messages.LedgerRecord, error) { return decodeRecord(data) }

// ledgerRecord is what the disk should hold now. Reservations are not in it.
func (n *Node) ledgerRecord() *messages.LedgerRecord {
	r := &messages.LedgerRecord{Epoch: n.epoch, BootId: n.w.Incarnation.GetBootId()}
	if n.lead != nil {
		r.Epoch = max(r.Epoch, n.lead.epoch)
	}
	for _, id := range n.ledger.WithdrawnGPUs() {
		r.WithdrawnGpus = append(r.WithdrawnGpus, string(id))
	}
	for _, l := range n.ledger.Slices() {
		if l.State != topology.SliceReserved {
			r.Slices = append(r.Slices, n.slices[l.Token].record(l))
		}
	}
	return r
}

func (s *nodeSlice) record(l *topology.Slice) *messages.SliceRecord {
	r := &messages.SliceRecord{
		Token: messages.ToToken(s.token), Job: string(s.job), State: messages.SliceState(l.State),
		RendezvousPort: l.Port, Spec: s.spec, Cause: s.cause,
	}
	for i := range s.ranks {
		r.Grants = append(r.Grants, s.ranks[i].grant)
		if s.ranks[i].exit != nil {
			r.Exits = append(r.Exits, s.ranks[i].exit)
		}
	}
	return r
}

// sliceOf reads a slice back; its state is what the disk says.
func sliceOf(r *messages.SliceRecord) topology.Slice {
	s := topology.Slice{
		Token: messages.FromToken(r.Token), Job: topology.JobID(r.Job),
		State: topology.SliceState(r.State), Port: r.RendezvousPort,
	}
	for _, g := range r.Grants {
		s.Grants = append(s.Grants, topology.Grant{
			Rank: topology.Rank(g.Rank), Amount: messages.FromResources(g.Amount), GPUs: messages.FromShares(g.Gpus),
		})
	}
	for _, e := range r.Exits {
		for i := range s.Grants {
			if s.Grants[i].Rank == topology.Rank(e.Rank) {
				s.Grants[i].Gone = true
			}
		}
	}
	return s
}
