package progress

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages"
)

// This file parses the body of a request of the Kubeflow Trainer progress protocol, as kubeflow/trainer publishes it.

const (
	// maxBodyBytes bounds the body of a request.
	maxBodyBytes = 64 << 10
	// maxPosted bounds the number of metrics in a request. Only messages.MaxMetrics of them are shown.
	maxPosted = 256
	// maxPostedChars bounds the name and the value of a metric in a request.
	maxPostedChars = 64

	currentStep = "current_step"
	totalSteps  = "total_steps"
)

// posted is the body of a request. All fields are optional.
type posted struct {
	Status *postedStatus `json:"trainerStatus,omitempty"`
}

type postedStatus struct {
	Percent *int32         `json:"progressPercentage,omitempty"`
	Left    *int64         `json:"estimatedRemainingSeconds,omitempty"`
	Metrics []postedMetric `json:"metrics,omitempty"`
	Updated *string        `json:"lastUpdatedTime,omitempty"`
}

type postedMetric struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// parsePosted parses a body and checks its limits.
func parsePosted(body []byte) (*posted, error) {
	p := &posted{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, errors.New("the body is not a valid JSON object")
	}
	s := p.Status
	if s == nil {
		return p, nil
	}
	if s.Percent != nil && (*s.Percent < 0 || *s.Percent > 100) {
		return nil, errors.New("progressPercentage must be from 0 to 100")
	}
	if s.Left != nil && *s.Left < 0 {
		return nil, errors.New("estimatedRemainingSeconds must not be negative")
	}
	if len(s.Metrics) > maxPosted {
		return nil, errors.New("there are more than 256 metrics")
	}
	for _, m := range s.Metrics {
		if !fitsPosted(m.Name) || !fitsPosted(m.Value) {
			return nil, errors.New("the name and the value of a metric must have 1 to 64 characters")
		}
	}
	if s.Updated != nil {
		if _, err := time.Parse(time.RFC3339, *s.Updated); err != nil {
			return nil, errors.New("lastUpdatedTime is not an RFC 3339 time")
		}
	}
	return p, nil
}

func fitsPosted(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= maxPostedChars
}

// report returns the progress in a request. It does not use the estimate of the remaining time: the callback divides
// the time since its start by the global step, which is wrong after a resume.
func (p *posted) report() (r Report) {
	if p.Status == nil {
		return r
	}
	for _, m := range p.Status.Metrics {
		switch m.Name {
		case currentStep:
			r.Step, r.HasStep = postedNumber(m.Value)
		case totalSteps:
			r.Total, _ = postedNumber(m.Value)
		default:
			r.Metrics = append(r.Metrics, Metric(m))
		}
	}
	if r.Metrics = r.Metrics[:min(len(r.Metrics), messages.MaxMetrics)]; !r.HasStep && p.Status.Percent != nil {
		r.Step, r.Total, r.HasStep = int64(*p.Status.Percent), 100, true
	}
	return r
}

// postedNumber parses a number of steps, which a client may write as 120 or as 120.0.
func postedNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, n >= 0 && n <= messages.MaxSteps
	}
	return whole(json.RawMessage(text))
}
