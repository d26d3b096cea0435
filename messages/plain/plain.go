// Package plain has the rules of jobs that need no messages: names, numeric IDs, limits and reserved variables. A small
// program that does not contain the messages follows these rules too.
package plain

import (
	"bytes"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// The limits in bytes, and the names with a meaning. Package messages has the same constants, with their comments.
const (
	MaxIDBytes    = 128
	MaxNameBytes  = 63
	MaxTitleBytes = 128
	MaxEnvBytes   = 64 << 10
	MaxValueBytes = 253
	MaxPriority   = 1_000_000
	HostImage     = "host"
	UserMe        = "me"
	Anonymous     = "anonymous"
)

// NameOf returns the valid name that is derived from a user's name. It returns "" if no character is valid.
func NameOf(given string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(given) {
		switch {
		case b.Len() >= MaxNameBytes:
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b.WriteRune(c)
		case c == '_' || c == ' ' || c == '.' || c == '/' || c == ':':
			b.WriteByte('-')
		}
	}
	name := b.String()
	if name == given {
		return given
	}
	return strings.Trim(name, "-")
}

// Titled reports whether a user may give this name to a job.
func Titled(given string) bool {
	return given != "" && len(given) <= MaxTitleBytes && NameOf(given) != "" &&
		strings.Trim(given, "-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Call returns the name and the title of a job with a user's name. The title is empty if it equals the name.
func Call(given string) (name, title string) {
	if name := NameOf(given); name != given && Titled(given) {
		return name, given
	}
	return given, ""
}

// NumericID returns the job's ID if it is a number. Otherwise it returns a hash of the ID between 2^30 and 2^31. Two
// jobs can have the same hash, so the caller must compare the full ID.
func NumericID(id string) string {
	if n, err := strconv.ParseUint(id, 10, 31); err == nil && n > 0 {
		return id
	}
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(id))&0x3fffffff|0x40000000), 10)
}

// IsScript reports whether a text begins with #!.
func IsScript(text []byte) bool { return bytes.HasPrefix(text, []byte("#!")) }

// reservedEnv lists the variables with the devices of a task.
var reservedEnv = []string{
	"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
}

// ReservedEnv reports whether users may not set a variable. Synapse sets these variables, which identify the task and
// its devices, and would override the value of a user.
func ReservedEnv(name string) bool {
	return strings.HasPrefix(name, "SYNAPSE_") || slices.Contains(reservedEnv, name)
}
