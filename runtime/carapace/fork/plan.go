//go:build linux

package fork

// This file encodes a plan as numbers and byte strings. The starter, which may allocate and fail, encodes it. Strings
// are referenced by their offset after the plan, which the receiver turns into addresses (landPlan).

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plan describes a command and its process.
type Plan struct {
	Path, Workdir string
	Args, Env     []string
	User          *User // nil: the user of its starter
	Gains         bool  // set-user-id programs of the image give rights
	Terminal      bool  // stdin is a terminal, which becomes the session's terminal
	// Bound and Ambient have one bit per capability: those to keep in the bounding set, and those to give to the
	// user.
	Bound, Ambient uint64
	Filter         []unix.SockFilter
	Limits         []Limit // at most 16
	// Late is the limit of the user's processes. It is set after the change of user.
	Late *Limit
}

// User is the user that runs a command.
type User struct {
	UID, GID int
	Groups   []uint32
}

// Limit is a resource limit.
type Limit struct {
	Number     int
	Soft, Hard uint64
	Index      int // identifies the limit in a failure
}

// ErrTooLong reports a command that, with its environment, is longer than the kernel accepts.
var ErrTooLong = errors.New("command and environment are too long for the kernel; shorten them")

// laidPlan is the encoded plan.
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
	untraced uintptr // the reason, as an errno
}

const maxLimits = 16 // the number of rlimits that have a name

// laidLimit is an encoded resource limit; soft and hard are a struct rlimit64.
type laidLimit struct {
	number     uintptr
	soft, hard uint64
	index      uintptr
}

// laying collects a plan's data. Offset 0 means that there is no string, so the data begins with an unused byte.
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
	at := make([]uintptr, len(texts)+1) // The last entry is the terminating zero.
	for i, text := range texts {
		at[i] = l.text(text)
	}
	return l.bytes(bytesOf(&at[0], len(at)))
}

// lay returns the encoded plan.
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

// landPlan turns the offsets of the plan into addresses.
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
