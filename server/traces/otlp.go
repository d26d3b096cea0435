package traces

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file defines the OTLP messages: JSON over HTTP as in opentelemetry-proto, with hexadecimal IDs. The
// OpenTelemetry SDK is not used. It would add megabytes to the scheduler, which creates spans only for the past and
// needs no contexts or samplers.

// The status codes of a span.
const statusError = 2

type value struct {
	StringValue *string `json:"stringValue,omitempty"`
	IntValue    string  `json:"intValue,omitempty"` // JSON encodes 64-bit integers as strings
}

type keyValue struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

type oneSpan struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	ParentID   string     `json:"parentSpanId,omitempty"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes []keyValue `json:"attributes"`
	Status     status     `json:"status"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type scopeSpans struct {
	Scope scope     `json:"scope"`
	Spans []oneSpan `json:"spans"`
}

type resource struct {
	Attributes []keyValue `json:"attributes"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

// request is ExportTraceServiceRequest.
type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

// reply is ExportTraceServiceResponse.
type reply struct {
	PartialSuccess struct {
		RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number or a string
		ErrorMessage  string          `json:"errorMessage"`
	} `json:"partialSuccess"`
}

func texts(pairs ...string) (all []keyValue) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, keyValue{pairs[i], value{StringValue: &pairs[i+1]}})
	}
	return all
}

// asked returns the request that exports these spans.
func asked(cluster, version string, spans []*span) *request {
	all := make([]oneSpan, len(spans))
	for i, s := range spans {
		all[i] = oneSpan{
			TraceID: hex.EncodeToString(s.trace[:]), SpanID: hex.EncodeToString(s.id[:]), Name: s.name, Kind: 1,
			Start: strconv.FormatInt(s.from, 10), End: strconv.FormatInt(s.until, 10),
		}
		if s.parent != [8]byte{} {
			all[i].ParentID = hex.EncodeToString(s.parent[:])
		}
		if s.failed != "" {
			all[i].Status = status{Message: s.failed, Code: statusError}
		}
		for _, a := range s.about {
			if a.text != "" {
				all[i].Attributes = append(all[i].Attributes, texts(a.key, a.text)...)
			} else if a.number != 0 {
				all[i].Attributes = append(all[i].Attributes, keyValue{a.key, value{IntValue: strconv.FormatInt(a.number, 10)}})
			}
		}
	}
	of := resource{texts("service.name", "synapse-scheduler", "service.version", version, "synapse.cluster", cluster)}
	return &request{[]resourceSpans{{of, []scopeSpans{{scope{"synapse", version}, all}}}}}
}

// refused is an error for which a retry cannot succeed.
type refused struct{ error }

// post sends a request. It does not follow redirects, because the traces are meant only for the configured
// collector.
func post(ctx context.Context, url string, r *request, within time.Duration) error {
	text, err := json.Marshal(r)
	if err != nil {
		return refused{err}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+"/v1/traces",
		bytes.NewReader(text))
	if err != nil {
		return refused{err}
	}
	q.Header.Set("Content-Type", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // allows the connection to be reused
	switch answer.StatusCode {
	case http.StatusOK:
		var p reply
		if json.Unmarshal(said, &p) == nil && p.PartialSuccess.ErrorMessage != "" {
			return refused{fmt.Errorf("the collector rejected spans: %q", p.PartialSuccess.ErrorMessage)}
		}
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("the collector returned %s", answer.Status)
	}
	return refused{fmt.Errorf("the collector returned %s", answer.Status)}
}
