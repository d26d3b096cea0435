package show

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
)

// This file prints the verdict on a failed attempt.

// verdictObj is the verdict on a failed attempt in -o json.
type verdictObj struct {
	Class    string       `json:"class"`
	Text     string       `json:"text"`
	Rank     *int32       `json:"rank,omitempty"` // the first rank that failed
	Node     string       `json:"node,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Others   int32        `json:"others,omitempty"` // ranks that ended because of it
	Charged  bool         `json:"countsAsRestart"`
	Repeated bool         `json:"repeated,omitempty"`
	Evidence *evidenceObj `json:"evidence,omitempty"`
}

type evidenceObj struct {
	OOM      string   `json:"outOfMemory,omitempty"` // whose memory: task, parent or host
	Xids     []int32  `json:"xids,omitempty"`
	Kernel   string   `json:"kernel,omitempty"`
	DiskFull bool     `json:"diskFull,omitempty"`
	EndedBy  string   `json:"endedBy,omitempty"`
	Step     int64    `json:"step,omitempty"`
	Error    string   `json:"error,omitempty"`
	Frame    string   `json:"frame,omitempty"`
	Output   []string `json:"output,omitempty"`
}

func verdictObject(v *messages.Verdict) *verdictObj {
	if v == nil {
		return nil
	}
	o := &verdictObj{
		Class: verdict.Word(v.GetClass()), Text: verdict.Sentence(v), Node: v.GetNode(), Reason: v.GetReason(),
		Others: v.GetOthers(), Charged: v.GetCharged(), Repeated: v.GetRepeated(),
	}
	if rank := v.GetRank(); rank >= 0 {
		o.Rank = &rank
	}
	if e := v.GetEvidence(); e != nil {
		o.Evidence = &evidenceObj{
			OOM: oomWord(e.GetOomScope()), Xids: e.GetXids(), Kernel: e.GetKernel(), DiskFull: e.GetDiskFull(),
			EndedBy: endedByWord(e.GetEndedBy()), Step: e.GetStep(), Error: e.GetError(), Frame: e.GetFrame(),
			Output: e.GetOutput(),
		}
	}
	return o
}

func oomWord(s messages.OomScope) string {
	if s == messages.OomScope_OOM_SCOPE_UNSPECIFIED {
		return ""
	}
	return messages.Word(s.String(), "OOM_SCOPE_")
}

func endedByWord(by messages.EndedBy) string {
	if by == messages.EndedBy_ENDED_BY_UNSPECIFIED {
		return ""
	}
	return messages.Word(by.String(), "ENDED_BY_")
}

// describeVerdict prints the verdict, its evidence and the last lines of the output.
func describeVerdict(p *page, v *messages.Verdict) {
	if v == nil {
		return
	}
	p.timed("Verdict", verdict.Sentence(v))
	counts := "does not count against restart.limit"
	if v.GetCharged() {
		counts = "counts against restart.limit"
	}
	p.line("Class", verdict.Word(v.GetClass())+", "+counts)
	p.line("Evidence", strings.Join(evidenceWords(v.GetEvidence()), "\n"))
	p.line("Last output", strings.Join(v.GetEvidence().GetOutput(), "\n"))
}

func evidenceWords(e *messages.Evidence) (all []string) {
	if s := oomWord(e.GetOomScope()); s != "" {
		all = append(all, "out of memory of the "+s)
	}
	for _, n := range e.GetXids() {
		all = append(all, fmt.Sprintf("Xid %d", n))
	}
	if e.GetDiskFull() {
		all = append(all, "the node's disk was full")
	}
	if by := endedByWord(e.GetEndedBy()); by != "" {
		all = append(all, "ended by: "+by)
	}
	if e.GetKernel() != "" {
		all = append(all, "kernel: "+e.GetKernel())
	}
	if e.GetStep() > 0 {
		all = append(all, fmt.Sprintf("last step: %d", e.GetStep()))
	}
	if e.GetError() != "" {
		all = append(all, strings.TrimSuffix("error: "+e.GetError()+", in "+e.GetFrame(), ", in "))
	}
	return all
}
