package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// This file measures the cost of certificates for clients.

// BenchmarkCall measures the command line from its start to its end with one answer. It alternates between a scheduler
// in plaintext and one with mutual TLS.
func BenchmarkCall(b *testing.B) {
	keys := filepath.Join(b.TempDir(), "keys")
	secured := newClusterOf(b, "synapse-scheduler", "--tls", newKeys(b, keys))
	ways := []struct {
		name   string
		server []string
	}{
		{"plain", []string{"SYNAPSE_SERVER=" + newCluster(b).address}},
		{"tls", []string{"SYNAPSE_SERVER=" + secured.address, "SYNAPSE_TLS=" + filepath.Join(keys, "admin")}},
	}
	once(b, func() {
		took := make([][]time.Duration, len(ways))
		used := make([]time.Duration, len(ways))
		for range size(101, 3) {
			for i, way := range ways {
				c := exec.Command(filepath.Join(bin, "synapse-cli"), "get", "nodes")
				c.Env = append(os.Environ(), way.server...)
				began := time.Now()
				if text, err := c.CombinedOutput(); err != nil {
					b.Fatalf("%s: %v: %s", way.name, err, text)
				}
				took[i] = append(took[i], time.Since(began))
				used[i] += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
			}
		}
		for i, way := range ways {
			slices.Sort(took[i])
			b.ReportMetric(float64(took[i][len(took[i])/2])/1e6, way.name+"-p50-ms")
			b.ReportMetric(float64(used[i])/1e6/float64(len(took[i])), way.name+"-cpu-ms")
		}
	})
}
