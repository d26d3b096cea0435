package messages

import (
	"hash/crc32"
	"strconv"
)

// This file maps the IDs of jobs to numbers, for tools that need numeric IDs, such as the Slurm commands.

// NumericID returns the job's ID if it is a number. Otherwise it returns a hash of the ID between 2^30 and 2^31. Two
// jobs can have the same hash, so the caller must compare the full ID.
func NumericID(id string) string {
	if n, err := strconv.ParseUint(id, 10, 31); err == nil && n > 0 {
		return id
	}
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(id))&0x3fffffff|0x40000000), 10)
}
