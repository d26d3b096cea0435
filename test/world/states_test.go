//go:build world

package world

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/web"
	"github.com/yi-json/synapse/test/able"
)

// This file tests what the views show instead of data: nothing exists yet, the user may not see it, or it is old.

// lack is a scheduler that has nothing to show.
type lack struct {
	api.SynapseClient
	refuses *messages.Outcome // every question; nil: it answers
	ends    chan struct{}     // closed: the stream ends
}

func (l *lack) outcome() error {
	if l.refuses == nil {
		return nil
	}
	return api.StatusOf(l.refuses)
}

func (l *lack) WhoAmI(context.Context, *api.WhoAmI, ...grpc.CallOption) (*api.WhoAmIReply, error) {
	return &api.WhoAmIReply{Cluster: "c-a", Name: "vera", Role: "viewer"}, nil
}

func (l *lack) Cluster(context.Context, *api.Cluster, ...grpc.CallOption) (*api.ClusterReply, error) {
	return &api.ClusterReply{ClusterId: "c-a"}, nil
}

func (l *lack) ListJobs(context.Context, *messages.ListJobs, ...grpc.CallOption) (*messages.ListJobsReply, error) {
	return &messages.ListJobsReply{}, l.outcome()
}

func (l *lack) GetJob(context.Context, *messages.GetJob, ...grpc.CallOption) (*messages.GetJobReply, error) {
	if l.refuses != nil {
		return nil, l.outcome()
	}
	return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Text: "unknown job \"j1\""})
}

func (l *lack) GetQueues(context.Context, *messages.GetQueues, ...grpc.CallOption) (*messages.GetQueuesReply, error) {
	return &messages.GetQueuesReply{}, l.outcome()
}

func (l *lack) ReadPast(context.Context, *api.ReadPast, ...grpc.CallOption) (
	grpc.ServerStreamingClient[api.PastPart], error) {
	return &onePart{}, l.outcome()
}

type onePart struct {
	grpc.ClientStream
	sent bool
}

func (p *onePart) Recv() (*api.PastPart, error) {
	if p.sent {
		return nil, io.EOF
	}
	p.sent = true
	return &api.PastPart{}, nil
}

func (l *lack) Watch(ctx context.Context, _ *messages.Watch, _ ...grpc.CallOption) (
	grpc.ServerStreamingClient[messages.Event], error) {
	select {
	case <-l.ends:
		return nil, away
	default:
		return &emptyWatch{ctx: ctx, of: l}, l.outcome()
	}
}

var away = api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "the scheduler is away"})

type emptyWatch struct {
	grpc.ClientStream
	ctx  context.Context
	of   *lack
	sent bool
}

func (w *emptyWatch) Recv() (*messages.Event, error) {
	if !w.sent {
		w.sent = true
		return &messages.Event{Synced: true}, nil
	}
	select {
	case <-w.ctx.Done():
	case <-w.of.ends:
		return nil, away
	}
	return nil, w.ctx.Err()
}

// TestPageStates checks that each view says that nothing exists yet, that the user may not see it, or that its data is
// old.
func TestPageStates(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("chromium"))
	const denied = "vera (viewer) may not read jobs"
	for name, one := range map[string]struct {
		of    *lack
		texts map[string]string
	}{
		"empty": {&lack{}, map[string]string{
			"#/map": "No nodes yet.", "#/jobs": "No jobs yet.", "#/nodes": "No nodes yet.", "#/queues": "No queues yet.",
			"#/events": "No events yet.", "#/job/j1": "unknown job", "#/node/n1": "Node not found.",
			"#/over": "No data for this time range yet.",
		}},
		"forbidden": {&lack{refuses: &messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Text: denied}},
			map[string]string{
				"#/map": denied, "#/jobs": denied, "#/nodes": denied, "#/queues": denied, "#/events": denied, "#/job/j1": denied,
				"#/node/n1": denied, "#/over": denied,
			}},
		"old": {&lack{ends: make(chan struct{})}, map[string]string{
			"#/map": "No nodes yet.", "#/jobs": "No jobs yet.", "#/nodes": "No nodes yet.", "#/queues": "No queues yet.",
			"#/events": "No events yet.", "#/job/j1": "unknown job", "#/node/n1": "Node not found.", "#/over": "No data",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			page := httptest.NewServer(web.New(web.Options{API: one.of, Open: true, Program: "synapse-cli",
				Answers: func(string) bool { return true }}))
			t.Cleanup(page.Close)
			t.Cleanup(page.CloseClientConnections)
			s := &surf{t: t}
			s.browse(page.URL + "/#/jobs")
			s.shows(one.texts["#/jobs"])
			if one.of.ends != nil {
				time.AfterFunc(time.Second, func() { close(one.of.ends) })
			}
			s.loadAxe()
			for hash, text := range one.texts {
				s.visit(hash)
				s.await(`document.querySelector("main .empty:not([hidden])")`)
				s.shows(text)
				if one.of.refuses != nil {
					s.shows("Ask an admin")
				}
				if one.of.ends != nil {
					s.await(`/^Data may be outdated, it is from .*: the scheduler is away$/.test(document.getElementById("away").innerText)`)
				}
				for _, width := range widths {
					s.do(chromedp.EmulateViewport(width, 800))
					s.accessible(name + " " + hash)
				}
				s.keep(name + strings.ReplaceAll(hash, "/", "-"))
			}
		})
	}
}
