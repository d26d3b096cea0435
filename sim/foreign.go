package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates nodes of another cluster. Each comes with a ledger of its cluster and a running task, sends Hello
// for a while, and leaves. They are not part of this cluster, so nobody counts on them. S13 checks that they keep their
// identity.

const (
	ourCluster   = "sim"
	otherCluster = "elsewhere"
	foreignMost  = 4 // limit per run
)

// foreignTask returns the task of a node of another cluster. No leader here assigns such a high counter.
func foreignTask(epoch uint64) topology.TaskKey {
	return topology.TaskKey{Token: topology.Token{Epoch: epoch, Counter: 1 << 40}}
}

// visit lets a node of another cluster connect that obeys a leader of that epoch. In a restore drill, the other cluster
// has our ID, because it was restored from our store.
func (w *World) visit(epoch uint64, cluster string) *machine {
	if w.visits == foreignMost {
		panic(fmt.Sprintf("script error: more than %d nodes of another cluster", foreignMost))
	}
	w.visits++
	m := w.newMachine(len(w.machines)+w.visits-1, 8)
	m.home = epoch
	for _, h := range w.schedulers {
		m.links = append(m.links, &link{w: w, machine: m, host: h})
	}
	w.foreign = append(w.foreign, m)
	m.powerOn()
	// The node ran before it came here. Its agent reads all this a moment later.
	key, spec := foreignTask(epoch), foreignSpec()
	grant := &messages.Grant{
		Amount: spec.Each, Gpus: []*messages.GpuShare{{GpuId: m.announcement.Gpus[0].Id, Milli: topology.WholeGPU}},
	}
	m.disk.content = worker.EncodeRecord(&messages.LedgerRecord{Epoch: epoch, BootId: m.bootID(), ClusterId: cluster,
		Slices: []*messages.SliceRecord{{
			Token: messages.ToToken(key.Token), Job: "theirs", State: messages.SliceState_SLICE_STATE_STARTED,
			Grants: []*messages.Grant{grant}, Spec: spec,
		}}})
	t := m.launcher.add(key, "theirs", 0, spec, grant)
	t.state, t.prepared, t.spawned, t.spawnedAt = taskRunning, true, true, w.engine.now
	m.launcher.used[grant.Gpus[0].GpuId] += topology.WholeGPU
	w.note(m.proc, "is of another cluster, and follows epoch %d there", epoch)
	return m
}

func foreignSpec() *messages.JobSpec {
	return &messages.JobSpec{Name: "theirs", Image: "sim", Command: script{run: 1000 * time.Hour, rank: -1}.command(),
		Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: topology.WholeGPU}}
}

// part ends a visit.
func (w *World) part(m *machine) {
	if i := slices.Index(w.foreign, m); i >= 0 {
		w.foreign = slices.Delete(w.foreign, i, i+1)
		m.powerLoss(0)
	}
}

// dialling returns the nodes that connect to the schedulers.
func (w *World) dialling() []*machine { return slices.Concat(w.machines, w.foreign) }

// foreignMachine lets a node of another cluster connect for a while. Each cluster counts epochs separately, so its
// epoch is arbitrary.
func foreignMachine(f *faults, p *process) bool {
	epoch := p.epoch + uint64(f.w.luck.below(1000))
	if f.w.luck.chance(0.5) {
		epoch = 1 + uint64(f.w.luck.below(int(min(p.epoch, 1000))))
	}
	cluster := otherCluster
	if f.w.luck.chance(0.3) {
		// from a restore drill; our own epochs never become so high
		epoch, cluster = p.epoch+10*restoredEpochs, ourCluster
		f.w.fired("foreign-drill")
	}
	m := f.w.visit(epoch, cluster)
	f.until(f.w.luck.between(5*time.Second, 2*time.Minute), func() { f.w.part(m) })
	return true
}

// Visit lets a node of another cluster connect, with a running task. The node gets the next number. It leaves when the
// world ends.
func (w *World) Visit(epoch uint64) { w.visit(epoch, otherCluster) }

// VisitFromDrill lets a node connect that was used in a restore drill. Its cluster's ID is ours.
func (w *World) VisitFromDrill(epoch uint64) { w.visit(epoch, ourCluster) }
