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

// This file owns the ledger's record as bytes: a mark, a version, a checksum,
// then a LedgerRecord. A record that is torn or corrupt is known as such and is
// never read in part.

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

// encodeRecord writes a record whole.
func encodeRecord(r *messages.LedgerRecord) []byte {
	return sealRecord(messages.Append(openRecord(nil), r))
}

// openRecord leaves room for the head, sealRecord fills it when all is there.
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

// DecodeRecord reads a record, for checks of what is on a machine's disk.
func DecodeRecord(data []byte) (*messages.LedgerRecord, error) { return decodeRecord(data) }

// EncodeRecord writes a record, for tests of a machine with a past.
func EncodeRecord(r *messages.LedgerRecord) []byte { return encodeRecord(r) }

// encodeBooks encodes the ledger as the disk should hold it now, without reservations. The bytes are valid until the
// next call: at most one save is under way.
func (n *Node) encodeBooks() []byte {
	data := append(n.disk.bytes[:0], n.encodeHead()...)
	for _, l := range n.ledger.Slices() {
		if l.State != topology.SliceReserved {
			data = n.slices[l.Token].appendRecord(data, &n.disk.part)
		}
	}
	n.disk.bytes = sealRecord(data)
	return n.disk.bytes
}

// headBytes is the beginning of a record, with what belongs to no slice. It is encoded again only when it differs,
// which is rare.
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

// The field numbers of a LedgerRecord's slices, and of a SliceRecord's changing parts.
var (
	ofRecord    = (&messages.LedgerRecord{}).ProtoReflect().Descriptor().Fields()
	ofSlice     = (&messages.SliceRecord{}).ProtoReflect().Descriptor().Fields()
	slicesField = ofRecord.ByName("slices").Number()
	stateField  = ofSlice.ByName("state").Number()
	causeField  = ofSlice.ByName("cause").Number()
	exitsField  = ofSlice.ByName("exits").Number()
	beganField  = ofSlice.ByName("gone_began_ns").Number()
)

// appendRecord appends a SliceRecord to a LedgerRecord. It is written in two parts, which a reader merges: what never
// changes after Commit is encoded once, so that a machine with many slices does not encode all of them whenever one
// changes. part is the buffer for what changes.
func (s *nodeSlice) appendRecord(data []byte, part *[]byte) []byte {
	if s.fixed == nil {
		s.fixed = append(messages.Bytes(&messages.SliceRecord{
			Token: s.wire, Job: string(s.page.Job), RendezvousPort: s.page.Port, Spec: s.spec, Grants: s.grants,
			Uid: s.uid, Owner: s.owner, OwnerProven: s.proven, ReservedNs: int64(s.reserved), DespiteUnwell: s.despite,
		}), s.newer...)
	}
	*part = s.appendChanging((*part)[:0])
	data = protowire.AppendTag(data, slicesField, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(len(s.fixed)+len(*part)))
	return append(append(data, s.fixed...), *part...)
}

// appendChanging writes by hand, because these few bytes belong after the fixed ones.
func (s *nodeSlice) appendChanging(data []byte) []byte {
	data = protowire.AppendTag(data, stateField, protowire.VarintType)
	data = protowire.AppendVarint(data, uint64(messages.ToSliceState(s.page.State)))
	if s.cause != 0 {
		data = protowire.AppendTag(data, causeField, protowire.VarintType)
		data = protowire.AppendVarint(data, uint64(s.cause))
	}
	if began := s.goneBegan(); began > 0 {
		data = protowire.AppendTag(data, beganField, protowire.VarintType)
		data = protowire.AppendVarint(data, uint64(began))
	}
	for i := range s.ranks {
		if exit := s.ranks[i].exit; exit != nil {
			data = protowire.AppendTag(data, exitsField, protowire.BytesType)
			data = messages.Append(protowire.AppendVarint(data, uint64(messages.Size(exit))), exit)
		}
	}
	return data
}

// sliceOf reads a slice back; its state is what the disk says.
func sliceOf(r *messages.SliceRecord) topology.Slice {
	s := topology.Slice{
		Token: messages.FromToken(r.Token), Job: topology.JobID(r.Job),
		State: messages.FromSliceState(r.State), Port: r.RendezvousPort,
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
