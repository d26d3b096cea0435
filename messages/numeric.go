package messages

import (
	"hash/crc32"
	"strconv"
)

// This file owns the number that a job has for what wants numbers of jobs, as Slurm does.

// NumericID is the job's id where that is a number, else one made from it: always the same, without being kept. Of the
// 2^30 numbers two jobs may have one, so what is found by a number has to be looked at.
func NumericID(id string) string {
	if n, err := strconv.ParseUint(id, 10, 31); err == nil && n > 0 {
		return id
	}
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(id))&0x3fffffff|0x40000000), 10)
}
