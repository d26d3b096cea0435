// The rule of the wall clock: the clocks of nodes differ, so no decision may depend on one. The rule reads only the
// syntax. It counts readings of the wall clock, times of day from a disk, and comparisons of two times of day.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// wallPackages lists the packages that decide about a cluster. The client only shows times of day, and sim uses none.
var wallPackages = []string{"actors", "cluster", "server", "store", "runtime", "topology", "policy", "messages"}

// wallUse is the permitted use of the wall clock in one file.
type wallUse struct {
	uses int
	why  string // nothing depends on it, or the worst effect of a wrong clock
}

// wallUses is the complete list. A new use needs an entry with its reason, or becomes a duration on a monotonic clock.
var wallUses = map[string]wallUse{
	"actors/leader/protocol/wishes.go":    {2, "that a time of day is too far ahead, and how long it is until then"},
	"actors/leader/job/begin.go":          {5, "the same: the Job looks again when the time has come, or at its deadline"},
	"actors/leader/scheduler/check.go":    {1, "that a job does not begin too far ahead"},
	"actors/leader/job/job.go":            {2, "when a run started and ended, as people see it"},
	"actors/leader/job/facts.go":          {2, "the same for an exit that no message reported"},
	"actors/leader/job/hang.go":           {1, "since when a rank has stopped, as people see it"},
	"actors/leader/job/heir.go":           {1, "when a restart in place was committed, as people see it"},
	"actors/leader/job/outcome.go":        {2, "a job's end and how long it ran, as people see it"},
	"actors/leader/job/saving.go":         {3, "when a checkpoint was requested, saved and due, as people see it"},
	"actors/leader/job/update.go":         {1, "when a user asked for a change, for display"},
	"actors/leader/scheduler/queues.go":   {1, "when queues were applied, as people see it"},
	"actors/leader/scheduler/suspects.go": {2, "when a failure was, and when a back-off ends, as people see it"},
	"actors/leader/job/wishes.go":         {2, "when a user asked for something, for display"},
	"actors/leader/job/write.go":          {4, "when a run was committed and ended, as people see it"},
	"cluster/identity/external_files.go": {
		2, "by its time a file is known to be another one than before",
	},
	"actors/mirror/census.go": {2, "how old waiting jobs are, and that one is tried again, as operators count them"},
	"actors/mirror/gpu_time.go": {
		2, "on which day GPU time was spent, as people see it: how much of it goes by the steady clock",
	},
	"actors/mirror/usage.go": {2,
		"how long a job waited, and by how much a promise was wrong, as operators count it"},
	"actors/mirror/starts.go":   {2, "what a start is told as, which was worked out on the leader's steady clock"},
	"actors/mirror/supposed.go": {1, "that a job would begin later, as people see it"},
	"actors/mirror/waiting.go":  {1, "when an event was, as people see it"},
	"actors/mirror/watch.go":    {5, "the same, and when a job is tried again, which barredUntil decides"},
	"actors/leader/job/warning.go": {1,
		"when the tasks of a job were told of its end, and when that is, as people see it"},
	"actors/leader/array/record.go": {
		1, "when an array ended, as people see it",
	},
	"messages/after.go": {
		1, "when an ended job began: another begins some minutes after that, and begin.go waits for it",
	},
	"actors/leader/array/update.go": {
		3, "when a user asked for something, for display; that a begin is not too far ahead, as begin.go; and that a " +
			"deadline can be met, as begin.go",
	},
	"actors/leader/array/wishes.go": {
		2, "when a user asked for something, for display",
	},
	"actors/mirror/words.go": {
		4, "in how long a job is tried again and that it begins later, as people see it; a span of two times of one clock",
	},
	"actors/worker/start.go": {1, "when a task was found ended by a reboot, as people see it"},
	"actors/worker/stop.go":  {1, "when a task ended that was never started, as people see it"},
	"actors/leader/scheduler/drain.go": {
		7, "when a drain ends, as people see it, two times of one clock, and when a machine is drained that people gave a " +
			"time of day: a wrong clock closes it early or late",
	},
	"actors/leader/scheduler/promises.go":   {1, "since when a job has been promised, as people see it"},
	"actors/leader/scheduler/damaged.go":    {2, "when a record was found damaged or given up, as people see it"},
	"actors/leader/scheduler/quarantine.go": {1, "when a machine was closed, as people see it"},
	"actors/leader/scheduler/submit.go": {
		3, "when a job was submitted, that one begins later, and when capacity is expected to be free, as people see it",
	},
	"actors/leader/scheduler/nodes.go": {2, "when a machine joined and who closed it when, as people see it"},
	"actors/worker/task.go":            {1, "when a task ended, as people see it: whose failure was first goes by ages"},
	"server/authn/rights.go":           {1, "until when a certificate is good, for people"},
	"server/authn/pass.go":             {1, "until when a token is good: a wrong clock ends it early or late"},
	"server/authn/session.go":          {2, "until when a cookie is good: a wrong clock ends it early or late"},
	"server/gateway/pass.go":           {4, "the same, and when it was made; one that is over is forgotten"},
	"server/gateway/account.go":        {2, "GPU-seconds as people see them: off by what two leaders' clocks differ"},
	"cluster/host/clock.go":            {1, "where the wall clock is read"},
	"server/api/validate.go":           {1, "a span of time that a person asks for must not end before it begins"},
	"server/notifications/send.go": {
		4, "when something was told, for people; which ends are no news: a wrong clock tells one again, or not",
	},
	"server/traces/tell.go":           {1, "when a phase of an attempt was over, for people"},
	"server/timeline/keeper.go":       {4, "when it was, for people, and which jobs are counted; set back, a part begins"},
	"cluster/election/retention.go":   {4, "what is old is forgotten, an eighth of --keep-finished too early at most"},
	"server/web/ask.go":               {2, "what time it is for users of the page"},
	"server/web/gpu_time.go":          {3, "GPU-hours of a job, for users of the page"},
	"server/web/record.go":            {1, "when it was, for later readers"},
	"server/web/stream.go":            {1, "what time it is, likewise"},
	"messages/prospect.go":            {3, "by how much a start is late, or how far away it is, as people see it"},
	"messages/explain/explain.go":     {1, "how far away the end of a job is, as people see it"},
	"messages/people.go":              {4, "times of day as people see them"},
	"messages/queues/usage.go":        {1, "the longest wait of a queue, as people see it"},
	"messages/deadline.go":            {1, "that a job cannot end before its deadline"},
	"messages/phase.go":               {1, "when a job begins, as people see it"},
	"messages/validate_history.go":    {1, "a span of time that a person asks for must not end before it begins"},
	"runtime/container/evidence.go":   {1, "an old empty cgroup goes; at worst that of a container that just begins"},
	"runtime/image/holder.go":         {1, "which image that nobody uses goes first: at worst one is fetched again"},
	"runtime/image/layer/assemble.go": {4, "times of files in an image, as it says them"},
	"runtime/image/layer/place.go":    {2, "the same"},
	"runtime/image/squash/tar.go":     {1, "the same"},
	"runtime/launcher/find.go":        {1, "when a task was found ended, as people see it"},
	"runtime/launcher/launcher.go":    {1, "when a task ended that is not known here, as people see it"},
	"runtime/launcher/notice.go":      {1, "when a task will be stopped, told beside how long that is from now"},
	"runtime/launcher/uids.go":        {1, "for how long an ended task's output is kept: at worst it goes early"},
	"runtime/transfer/parcel.go":      {1, "times of files that are copied, as they say them"},
	"runtime/launcher/task.go":        {1, "when a task ended that no supervisor saw, as people see it"},
	"runtime/supervisor/main.go":      {1, "when a task ended, as people see it"},
	"runtime/supervisor/record.go":    {1, "the same"},
	"runtime/supervisor/times.go":     {1, "when a task wrote its output, as people see it"},
	"store/memory.go":                 {2, "what people ask for by a span of time, and what Retention says"},
	"store/postgres/lead.go":          {3, "the lease, by the database's clock; if it jumps, the epoch fences"},
}

// wallReadings lists methods and functions that return a time of day, or convert one from a disk.
var wallReadings = []string{"WallMs", "Unix", "UnixMilli", "UnixMicro", "UnixNano", "ModTime"}

// wallRule: a file uses the wall clock exactly as often as the list says.
func wallRule(s source) []string {
	if !s.production() || !slices.Contains(wallPackages, s.layer()) {
		return nil
	}
	var uses []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if what := s.wallClock(node); what != "" {
			uses = append(uses, fmt.Sprintf("%s (%s)", s.at(node.Pos()), what))
		}
		return true
	})
	if listed := wallUses[s.path]; len(uses) != listed.uses {
		return []string{fmt.Sprintf("%s has %d uses of the wall clock, and wallUses says %d. What was spent travels as a "+
			"duration on each side's own steady clock; a use for people alone goes into the list, with why: %s",
			s.path, len(uses), listed.uses, strings.Join(uses, ", "))}
	}
	return nil
}

// wallClock returns the name of a use of the wall clock, or an empty string.
func (s source) wallClock(node ast.Node) string {
	switch n := node.(type) {
	case *ast.CallExpr:
		if selector, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(wallReadings, selector.Sel.Name) {
			return selector.Sel.Name
		}
	case *ast.BinaryExpr:
		compares := slices.Contains([]token.Token{token.SUB, token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op)
		if compares && (timeOfDay(n.X) || timeOfDay(n.Y)) && !isZero(n.X) && !isZero(n.Y) {
			return "a time of day " + n.Op.String() + " another"
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.Contains(n.Value, "clock_timestamp") {
			return "the database's clock"
		}
	}
	return ""
}

// timeOfDay reports whether the name of an expression says that it is a time of day.
func timeOfDay(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(x.Name), "unixms")
	case *ast.SelectorExpr:
		return timeOfDay(x.Sel)
	case *ast.CallExpr:
		return timeOfDay(x.Fun)
	}
	return false
}

// isZero reports whether an expression is zero. A comparison with zero only shows if a time of day is set.
func isZero(x ast.Expr) bool {
	literal, ok := x.(*ast.BasicLit)
	return ok && literal.Value == "0"
}
