package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file submits the stream of gangs, and records the answers to users.

// users is the number of concurrent submitters. Each waits for its gang.
const users = 6

// submitted is a gang that was acknowledged.
type submitted struct {
	id, request string
	spec        *messages.JobSpec
	cancelled   bool  // a cancel was acknowledged
	requeued    int32 // the attempt that a requeue stopped, according to its answer; 0: none
}

// stream submits gangs until ctx ends, and returns all acknowledged ones. It repeats open requests until they are
// acknowledged.
func (w *world) stream(ctx context.Context) []submitted {
	var mu sync.Mutex
	var all []submitted
	var running sync.WaitGroup
	for user := range users {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s, acknowledged := w.submit(fmt.Sprintf("u%d-%d", user, n))
				if !acknowledged {
					w.t.Errorf("request %s was not acknowledged within %s", s.request, patience)
					return
				}
				switch w.draw(10) {
				case 0:
					wait(ctx, w.between(0, 2*time.Second))
					s.cancelled = w.cancel(s.id)
				case 1:
					wait(ctx, w.between(0, 2*time.Second))
					s.requeued = w.requeue(s.id)
				}
				mu.Lock()
				all = append(all, s)
				mu.Unlock()
				w.over(ctx, s.id)
			}
		})
	}
	running.Wait()
	return all
}

// patience is the longest time without any answer, because faults may follow each other and overlap.
var patience = pace.Of(3 * time.Minute)

// spec draws a gang.
func (w *world) spec() *messages.JobSpec {
	tasks, gpus := int32(1+w.draw(4)), 1+w.draw(gpusEach)
	work := w.between(50*time.Millisecond, 2500*time.Millisecond)
	if w.draw(3) == 0 { // long enough to outlive its agent or its leader
		work = w.between(2*time.Second, 10*time.Second)
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "root"
	}
	var mounts []*messages.Mount
	for _, name := range shared {
		mounts = append(mounts, &messages.Mount{Source: filepath.Join(w.dir, name), Target: filepath.Join(w.dir, name)})
	}
	return &messages.JobSpec{
		Name: "gang", Image: "host", Command: []string{filepath.Join(w.dir, "bin", "member")}, User: user, Mounts: mounts,
		Env: []*messages.EnvVar{
			{Name: "CHAOS_DIR", Value: w.dir}, {Name: "CHAOS_GPUS", Value: fmt.Sprint(gpus)},
			{Name: "CHAOS_WORK", Value: work.String()},
		},
		Gang: &messages.GangSpec{ReplicasMin: tasks, ReplicasMax: tasks},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 64 << 20, MilliGpu: int64(gpus) * 1000},
		Stop: &messages.StopSpec{Signal: 15, GraceMs: 2000},
		// It is longer than any run here, and shorter than the differences of the schedulers' wall clocks.
		TimeLimitMs: (30 * time.Minute).Milliseconds(),
	}
}

// submit repeats its request until it is answered, and then once more, like a client that lost the answer. The job must
// be the same.
func (w *world) submit(request string) (submitted, bool) {
	s := submitted{request: request, spec: w.spec()}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(100 * time.Millisecond) {
		reply, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.SubmitReply, error) {
			return c.Submit(ctx, &messages.Submit{RequestId: request, Spec: s.spec, AllowInfeasible: true})
		})
		switch {
		case err != nil:
			continue
		case s.id == "":
			s.id = reply.Job
			if w.draw(4) != 0 {
				return s, true
			}
		case s.id != reply.Job:
			w.t.Errorf("request %s created job %s, and then %s", request, s.id, reply.Job)
			return s, true
		default:
			return s, true
		}
	}
	return s, s.id != ""
}

func (w *world) cancel(id string) bool {
	_, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.CancelReply, error) {
		return c.Cancel(ctx, &messages.Cancel{Job: id, Reason: "chaos"})
	})
	return err == nil
}

// requeue returns the attempt that is being stopped, if any.
func (w *world) requeue(id string) int32 {
	reply, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.RequeueReply, error) {
		return c.Requeue(ctx, &messages.Requeue{Job: id, Reason: "chaos"})
	})
	if err != nil {
		return 0
	}
	return reply.Run
}

// over waits until a job has finished or ctx has ended.
func (w *world) over(ctx context.Context, id string) {
	for ctx.Err() == nil {
		reply, err := ask(w, func(ctx context.Context, c api.SynapseClient) (*messages.GetJobReply, error) {
			return c.GetJob(ctx, &messages.GetJob{Job: id})
		})
		if err == nil && reply.Job.Record.State.Terminal() {
			return
		}
		wait(ctx, 150*time.Millisecond)
	}
}
