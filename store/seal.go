package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the stored form of a record. It is sealed, so that a truncated, swapped or newer record is detected
// when it is read. Protobuf alone would not detect it. A record that is cut between two fields reads as a shorter one,
// and a job without its last fields is a different job.

// ErrDamaged is returned if a stored record differs from the written one. The error that wraps it names the difference.
// A single Damage is set aside. If the entire store is damaged, nothing is decided on it.
var ErrDamaged = errors.New("a stored record is damaged")

// Damage is one damaged record. It does not affect the others.
type Damage struct{ Table, Key, What string }

func (d *Damage) Error() string {
	return d.where() + ": " + ErrDamaged.Error()
}

func (d *Damage) where() string { return fmt.Sprintf("table %s, key %q: %s", d.Table, d.Key, d.What) }

// whatIsWrong returns the text of a damage, for a context that already reports a damaged record.
func whatIsWrong(err error) string {
	if d := (*Damage)(nil); errors.As(err, &d) {
		return messages.AsText(d.where())
	}
	return messages.AsText(err.Error())
}

// Unwrap makes a Damage an ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

const (
	sealFormat = 1 // the first byte; another value comes from a later version
	sealBytes  = 5 // the format and a CRC-32C of the record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns the stored form of an encoded record.
func seal(record []byte) []byte {
	out := make([]byte, sealBytes, sealBytes+len(record))
	out[0] = sealFormat
	binary.BigEndian.PutUint32(out[1:], crc32.Checksum(record, castagnoli))
	return append(out, record...)
}

func damaged(table, key, format string, args ...any) error {
	return &Damage{table, key, fmt.Sprintf(format, args...)}
}

// readable checks a record before it is written and after it is read. If the check of the reader were stricter, one
// write could close the store for good.
func readable(record interface{ Validate() error }) error { return record.Validate() }

// unseal returns the record within the seal, if it is unchanged.
func unseal(table, key string, sealed []byte) ([]byte, error) {
	switch {
	case len(sealed) < sealBytes:
		return nil, damaged(table, key, "record has %d bytes, fewer than a seal", len(sealed))
	case sealed[0] != sealFormat:
		return nil, damaged(table, key, "record has format %d, but this program supports only %d", sealed[0], sealFormat)
	}
	record := sealed[sealBytes:]
	if want, got := binary.BigEndian.Uint32(sealed[1:]), crc32.Checksum(record, castagnoli); want != got {
		return nil, damaged(table, key, "checksum of its %d bytes is %08x, but %08x was written", len(record), got, want)
	}
	return record, nil
}

// parse decodes a record into a message, and returns what is wrong with it.
func parse(table, key string, record []byte, into interface {
	proto.Message
	Validate() error
}) error {
	if err := proto.Unmarshal(record, into); err != nil {
		return damaged(table, key, "record cannot be decoded (%v)", err)
	}
	if err := readable(into); err != nil {
		return damaged(table, key, "record is invalid (%v)", err)
	}
	return nil
}

// ReadJob reads a stored job's record.
func ReadJob(id topology.JobID, sealed []byte) (*messages.JobRecord, error) {
	record, err := unseal("job", string(id), sealed)
	if err != nil {
		return nil, err
	}
	return parseJob(id, record)
}

func parseJob(id topology.JobID, data []byte) (*messages.JobRecord, error) {
	record := new(messages.JobRecord)
	if err := parse("job", string(id), data, record); err != nil {
		return nil, err
	}
	if record.Id != string(id) {
		return nil, damaged("job", string(id), "it contains the record of %q", record.Id)
	}
	return record, nil
}

// ReadAttempt reads a stored attempt's record.
func ReadAttempt(job topology.JobID, token topology.Token, sealed []byte) (*messages.AttemptRecord, error) {
	record, err := unseal("attempt", attemptKey(job, token), sealed)
	if err != nil {
		return nil, err
	}
	return parseAttempt(job, token, record)
}

func parseAttempt(job topology.JobID, token topology.Token, data []byte) (*messages.AttemptRecord, error) {
	record, key := new(messages.AttemptRecord), attemptKey(job, token)
	if err := parse("attempt", key, data, record); err != nil {
		return nil, err
	}
	if was := messages.FromToken(record.Token); record.Job != string(job) || was != token {
		return nil, damaged("attempt", key, "it contains the record of %q", record.Job+"/"+was.String())
	}
	return record, nil
}

func attemptKey(job topology.JobID, token topology.Token) string {
	return string(job) + "/" + token.String()
}

// ReadNode reads a stored node's record.
func ReadNode(id topology.NodeID, sealed []byte) (*messages.NodeRecord, error) {
	record, err := unseal("node", string(id), sealed)
	if err != nil {
		return nil, err
	}
	return parseNode(id, record)
}

func parseNode(id topology.NodeID, data []byte) (*messages.NodeRecord, error) {
	record := new(messages.NodeRecord)
	if err := parse("node", string(id), data, record); err != nil {
		return nil, err
	}
	if record.Id != string(id) {
		return nil, damaged("node", string(id), "it contains the record of %q", record.Id)
	}
	return record, nil
}
