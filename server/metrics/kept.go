package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// kept hands out the same figures for a second, to however many. It owns the latest, and counts while nobody else does.
type kept struct {
	from prometheus.Gatherer
	now  func() time.Time

	mu   sync.Mutex
	at   time.Time
	last []*dto.MetricFamily
	err  error
}

// Gather answers what was gathered last, if that is fresh.
func (k *kept) Gather() ([]*dto.MetricFamily, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); k.at.IsZero() || now.Sub(k.at) >= freshFor {
		k.last, k.err = k.from.Gather()
		k.at = k.now()
	}
	return k.last, k.err
}
