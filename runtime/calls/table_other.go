//go:build linux && !amd64 && !arm64

package calls

// This file has empty tables for other architectures.

var allowed, beside []call
