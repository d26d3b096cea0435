package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the encoding of the ledger's record: a mark, a version, a checksum, then a LedgerRecord. A torn or
// corrupt record is recognized and never read in part.

const (
	recordMark    = "SYNL"
	recordVersion = 1
	recordHead    = len(recordMark) + 4 + 4 // the mark, the version, the checksum of version and body
)

var (
	errRecord      = errors.New("ledger record is corrupted")
	errRecordNewer = errors.New("ledger record was written by a newer agent")
	recordTable    = crc32.MakeTable(crc32.Castagnoli)
)

// encodeRecord encodes a complete record.
func encodeRecord(r *messages.LedgerRecord) []byte {
	return sealRecord(messages.Append(openRecord(nil), r))
}

// openRecord appends space for the head. sealRecord fills the head when the record is complete.
func openRecord(data []byte) []byte { return append(data, make([]byte, recordHead)...) }

func sealRecord(data []byte) []byte {
	copy(data, recordMark)
	binary.LittleEndian.PutUint32(data[4:], recordVersion)
	binary.LittleEndian.PutUint32(data[8:], recordSum(data))
	return data
}

func recordSum(data []byte) uint32 {
	return crc32.Update(crc32.Checksum(data[4:8], recordTable), recordTable, data[recordHead:])
}

func decodeRecord(data []byte) (*messages.LedgerRecord, error) {
	if len(data) < recordHead || string(data[:4]) != recordMark ||
		binary.LittleEndian.Uint32(data[8:]) != recordSum(data) {
		return nil, fmt.Errorf("%w: %d bytes", errRecord, len(data))
	}
	if v := binary.LittleEndian.Uint32(data[4:]); v != recordVersion {
		return nil, fmt.Errorf("%w: version %d, supported is %d", errRecordNewer, v, recordVersion)
	}
	r := &messages.LedgerRecord{}
	if err := proto.Unmarshal(data[recordHead:], r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	return r, nil
}

// DecodeRecord decodes a record, for checks of a node's disk.
func DecodeRecord(data []byte) (*messages.LedgerRecord, error) { return decodeRecord(data) }

// EncodeRecord encodes a record, for tests of a node with earlier state.
func EncodeRecord(r *messages.LedgerRecord) []byte { return encodeRecord(r) }

// encodeBooks encodes the ledger as the disk should hold it now, without reservations. The bytes are valid until the
// next call, because at most one save is in progress.
func (n *Node) encodeBooks() []byte {
	data := append(n.disk.bytes[:0], n.encodeHead()...)
	for _, l := range n.ledger.Allocations() {
		if l.State != topology.AllocationReserved {
			data = n.slices[l.Token].appendRecord(data, &n.disk.part)
		}
	}
	n.disk.bytes = sealRecord(data)
	return n.disk.bytes
}

// headBytes is the beginning of a record, with the fields that belong to no allocation. It is encoded again only if it
// differs, which is rare.
type headBytes struct {
	epoch     uint64
	cluster   string
	withdrawn []topology.GPUID
	bytes     []byte
}

func (n *Node) encodeHead() []byte {
	h, epoch, withdrawn := &n.disk.head, n.epoch, n.ledger.WithdrawnGPUs()
	if n.lead != nil {
		epoch = max(epoch, n.lead.epoch)
	}
	if h.bytes == nil || h.epoch != epoch || h.cluster != n.cluster || !slices.Equal(h.withdrawn, withdrawn) {
		r := &messages.LedgerRecord{Epoch: epoch, ClusterId: n.cluster, BootId: n.p.Incarnation.GetBootId()}
		for _, id := range withdrawn {
			r.WithdrawnGpus = append(r.WithdrawnGpus, string(id))
		}
		*h = headBytes{epoch, n.cluster, withdrawn, append(messages.Append(openRecord(nil), r), n.newer...)}
	}
	return h.bytes
}

// These are the field numbers of a LedgerRecord's allocations, and of the changing fields of a SliceRecord.
var (
	ofRecord     = (&messages.LedgerRecord{}).ProtoReflect().Descriptor().Fields()
	ofAllocation = (&messages.SliceRecord{}).ProtoReflect().Descriptor().Fields()
	slicesField  = ofRecord.ByName("slices").Number()
	stateField   = ofAllocation.ByName("state").Number()
	causeField   = ofAllocation.ByName("cause").Number()
	exitsField   = ofAllocation.ByName("exits").Number()
	beganField   = ofAllocation.ByName("gone_began_ns").Number()
	heldField    = ofAllocation.ByName("held_until_ns").Number()
)

// appendRecord appends a SliceRecord to a LedgerRecord in two parts, which a reader merges. The fields that never
// change after Commit are encoded once. A node with many allocations therefore does not encode all of them for each
// change. The argument part is the buffer for the changing fields.
func (s *nodeAllocation) appendRecord(data []byte, part *[]byte) []byte {
	if s.fixed == nil {
		s.fixed = append(messages.Bytes(&messages.SliceRecord{
			Token: s.wire, Job: string(s.page.Job), RendezvousPort: s.page.Port, Spec: s.spec, Grants: s.grants,
			Uid: s.uid, Owner: s.owner, OwnerProven: s.proven, ReservedNs: int64(s.reserved), DespiteUnwell: s.despite,
			Inherited: s.inherited,
		}), s.newer...)
	}
	*part = s.appendChanging((*part)[:0])
	data = protowire.AppendTag(data, slicesField, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(len(s.fixed)+len(*part)))
	return append(append(data, s.fixed...), *part...)
}

// appendChanging encodes its fields by hand, because these few bytes follow the fixed ones.
func (s *nodeAllocation) appendChanging(data []byte) []byte {
	data = protowire.AppendTag(data, stateField, protowire.VarintType)
	data = protowire.AppendVarint(data, uint64(messages.ToAllocationState(s.page.State)))
	if s.cause != 0 {
		data = protowire.AppendTag(data, causeField, protowire.VarintType)
		data = protowire.AppendVarint(data, uint64(s.cause))
	}
	if began := s.goneBegan(); began > 0 {
		data = protowire.AppendTag(data, beganField, protowire.VarintType)
		data = protowire.AppendVarint(data, uint64(began))
	}
	if s.hold.until > 0 {
		data = protowire.AppendTag(data, heldField, protowire.VarintType)
		data = protowire.AppendVarint(data, uint64(s.hold.until))
	}
	for i := range s.ranks {
		if exit := s.ranks[i].exit; exit != nil {
			data = protowire.AppendTag(data, exitsField, protowire.BytesType)
			data = messages.Append(protowire.AppendVarint(data, uint64(messages.Size(exit))), exit)
		}
	}
	return data
}

// allocationOf decodes an allocation. Its state is the state on disk.
func allocationOf(r *messages.SliceRecord) topology.Allocation {
	s := topology.Allocation{
		Token: messages.FromToken(r.Token), Job: topology.JobID(r.Job),
		State: messages.FromAllocationState(r.State), Port: r.RendezvousPort,
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
