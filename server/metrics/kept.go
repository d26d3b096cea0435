package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// kept returns the same metrics for a second, to any number of scrapes. Only one scrape collects at a time.
type kept struct {
	from prometheus.Gatherer
	now  func() time.Time

	mu   sync.Mutex
	at   time.Time
	last []*dto.MetricFamily
	err  error
}

// Gather returns the last metrics if they are fresh, and otherwise collects them again.
func (k *kept) Gather() ([]*dto.MetricFamily, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); k.at.IsZero() || now.Sub(k.at) >= freshFor {
		k.last, k.err = k.from.Gather()
		k.at = k.now()
	}
	return k.last, k.err
}
