//go:build linux

package fork

// What a process is told to become: numbers and byte strings, put together by the starter, which may allocate and fail.
// The receiver finds the strings by their distance from the plan's end, and makes addresses of that (landPlan).

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plan is a command.
type Plan struct {
	Path, Workdir string
	Args, Env     []string
	User          *User // nil: that of its starter
	Gains         bool  // rights by set-user-id programs, which come with its image
	Terminal      bool  // its stdin is a terminal, which becomes that of its session
	// Bound and Ambient have bits of capabilities: to be kept in the bounding set, and to be handed to a user.
	Bound, Ambient uint64
	Filter         []unix.SockFilter
	Limits         []Limit // no more than 16
	// Late is the limit of the user's processes, which is set when the user was changed.
	Late *Limit
}

// User is the user as which a command runs.
type User struct {
	UID, GID int
	Groups   []uint32
}

// Limit is a resource limit.
type Limit struct {
	Number     int
	Soft, Hard uint64
	Index      int // by which a failure names it
}

// ErrTooLong is a command that is longer, with its environment, than the kernel takes.
var ErrTooLong = errors.New("command and environment are longer than the kernel takes")

// laidPlan is a plan as a process reads it.
type laidPlan struct {
	length uintptr // of the data, in bytes

	path, argv, env, workdir uintptr

	changesUser, gains bool
	terminal           bool
	uid, gid           uintptr
	groups, groupsN    uintptr

	bound, ambient uint64
	filter         struct {
		length uint16
		at     uintptr
	}
	limits   [maxLimits]laidLimit
	limitsN  uintptr
	late     laidLimit
	lateN    uintptr
	untraced uintptr // why, as an errno
}

const maxLimits = 16 // as many as have a name

// laidLimit is a resource limit; soft and hard are a struct rlimit64.
type laidLimit struct {
	number     uintptr
	soft, hard uint64
	index      uintptr
}

// laying puts a plan's data together. An address is told from none by not being zero, so nothing lies at its beginning.
type laying struct{ data []byte }

func (l *laying) bytes(content []byte) uintptr {
	for len(l.data) == 0 || len(l.data)%8 != 0 {
		l.data = append(l.data, 0)
	}
	at := uintptr(len(l.data))
	l.data = append(l.data, content...)
	return at
}

func (l *laying) text(text string) uintptr { return l.bytes(append([]byte(text), 0)) }

func (l *laying) texts(texts []string) uintptr {
	at := make([]uintptr, len(texts)+1) // The last one is the zero that ends it.
	for i, text := range texts {
		at[i] = l.text(text)
	}
	return l.bytes(bytesOf(&at[0], len(at)))
}

// lay answers the plan as it is sent.
func (p *Plan) lay() ([]byte, error) {
	var l laying
	laid := laidPlan{path: l.text(p.Path), workdir: l.text(p.Workdir), argv: l.texts(p.Args), env: l.texts(p.Env),
		gains: p.Gains, terminal: p.Terminal, bound: p.Bound, ambient: p.Ambient}
	if laid.changesUser = p.User != nil; laid.changesUser {
		laid.uid, laid.gid = uintptr(p.User.UID), uintptr(p.User.GID)
		if laid.groupsN = uintptr(len(p.User.Groups)); laid.groupsN > 0 {
			laid.groups = l.bytes(bytesOf(&p.User.Groups[0], len(p.User.Groups)))
		}
	}
	if len(p.Filter) > 0 {
		laid.filter.length, laid.filter.at = uint16(len(p.Filter)), l.bytes(bytesOf(&p.Filter[0], len(p.Filter)))
	}
	for i, limit := range p.Limits {
		laid.limits[i], laid.limitsN = limit.lay(), uintptr(i+1)
	}
	if p.Late != nil {
		laid.late, laid.lateN = p.Late.lay(), 1
	}
	if laid.length = uintptr(len(l.data)); laid.length > maxPlanWords*unsafe.Sizeof(laid.length) {
		return nil, ErrTooLong
	}
	return append(bytesOf(&laid, 1), l.data...), nil
}

func (l *Limit) lay() laidLimit {
	return laidLimit{uintptr(l.Number), l.Soft, l.Hard, uintptr(l.Index)}
}

// landPlan makes addresses of what the plan tells.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func landPlan(n *nest) {
	base := uintptr(unsafe.Pointer(&n.data))
	landTexts(n, n.plan.argv, base)
	landTexts(n, n.plan.env, base)
	for _, at := range [...]*uintptr{&n.plan.path, &n.plan.workdir, &n.plan.argv, &n.plan.env, &n.plan.groups,
		&n.plan.filter.at} {
		*at += base
	}
}

//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func landTexts(n *nest, at, base uintptr) {
	for i := at / unsafe.Sizeof(at); n.data[i] != 0; i++ {
		n.data[i] += base
	}
}

// Step names a step in which a process can fail.
type Step uint16

const (
	StepClose Step = iota
	StepDeath
	StepHide
	StepProc
	StepLetGo
	StepEnter
	StepFork
	StepBinary
	StepJoin
	StepCgroups
	StepLimits
	StepIDs
	StepBound
	StepPrivileges
	StepFilter
	StepAmbient
	StepGroups
	StepGroup
	StepUser
	StepWorkdir
	StepStdio
	StepTerminal
	StepExec
)
