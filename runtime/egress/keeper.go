//go:build linux

package egress

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns what is refused on a machine now: where the schedulers are may change while tasks run, and so may
// the machine's own addresses. The tasks' filters follow.

// Options configure a keeper.
type Options struct {
	Schedulers []string // host:port of each
	// Reachable and Disclosed are what the machine's owner allows: the schedulers' ports, and the service for a
	// cloud's machines.
	Reachable, Disclosed bool
	// Tell is called once for each failure; nil: never.
	Tell func(format string, args ...any)
	// Resolve and Own return where a name leads, and the machine's own addresses; nil: asks the machine.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Own     func() []netip.Addr
}

// The times.
const (
	lookAgain    = 5 * time.Second
	resolveLimit = 3 * time.Second
)

// Keeper knows what is refused now.
type Keeper struct {
	o Options

	mu     sync.Mutex
	known  map[string][]netip.AddrPort // of each scheduler, as it was found last
	places []Place
	turn   int            // counts the changes of places
	held   map[string]int // by group, the turn whose places it refuses
	said   map[string]bool
	others func([]Place) error // these are told of changes too
	refuse func(group string, places []Place) error
}

// NewKeeper makes a keeper, and looks where everything is.
func NewKeeper(o Options) *Keeper {
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Own == nil {
		o.Own = ownAddresses
	}
	if o.Tell == nil {
		o.Tell = func(string, ...any) {}
	}
	k := &Keeper{
		o: o, known: map[string][]netip.AddrPort{}, held: map[string]int{}, said: map[string]bool{}, refuse: Refuse,
	}
	k.look()
	return k
}

// Places are the places that are refused to a task that starts now.
func (k *Keeper) Places() []Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.places)
}

// OnChange sets a function that is told when what is refused changes. It is called before Begin.
func (k *Keeper) OnChange(tell func([]Place) error) { k.others = tell }

// Begin follows changes until end is called. groups returns the control groups of the running tasks.
func (k *Keeper) Begin(groups func() []string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go k.follow(ctx, groups)
	return cancel
}

func (k *Keeper) follow(ctx context.Context, groups func() []string) {
	for k.Hold(groups()); ; k.Hold(groups()) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
			k.look()
		}
	}
}

// look finds out what is to be refused. A name that cannot be resolved now keeps its last addresses.
func (k *Keeper) look() {
	var places []Place
	if !k.o.Disclosed {
		places = Metadata()
	}
	if !k.o.Reachable {
		for _, at := range k.o.Schedulers {
			if found := k.find(at); len(found) > 0 {
				k.known[at] = found
			}
		}
		var all []netip.AddrPort
		for _, at := range k.o.Schedulers {
			all = append(all, k.known[at]...)
		}
		places = append(places, Services(all, k.o.Own())...)
	}
	slices.SortFunc(places, func(a, b Place) int { return strings.Compare(a.String(), b.String()) })
	places = slices.Compact(places)
	if len(places) > maxPlaces {
		k.tellOnce("Tasks reach the refused services' ports at no address at all: there are %d places, and "+
			"a filter takes %d", len(places), maxPlaces)
		places = everywhere(places)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Equal(places, k.places) {
		return
	}
	k.places = places
	k.turn++
	if k.others != nil {
		if err := k.others(places); err != nil {
			k.tellOnce("Private networks cannot be told what tasks must not reach: %v", err)
		}
	}
}

func (k *Keeper) find(at string) (found []netip.AddrPort) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		named, wrong := net.LookupPort("tcp", port)
		if wrong != nil {
			return nil
		}
		number = uint64(named)
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	addresses, err := k.o.Resolve(ctx, host)
	if host == "" {
		addresses, err = []netip.Addr{netip.IPv4Unspecified()}, nil
	}
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		found = append(found, netip.AddrPortFrom(a.Unmap(), uint16(number)))
	}
	return found
}

// Hold makes the tasks' groups refuse what is refused now, where they do not yet.
func (k *Keeper) Hold(groups []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	here := map[string]int{}
	for _, group := range groups {
		if turn, ok := k.held[group]; ok && turn == k.turn {
			here[group] = turn
			continue
		}
		switch err := k.refuse(group, k.places); {
		case err == nil:
			here[group] = k.turn
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV):
			k.tellOnce("A task's filter cannot be told what tasks must not reach: %v", err)
		}
	}
	k.held = here
}

func (k *Keeper) tellOnce(format string, args ...any) {
	if !k.said[format] {
		k.said[format] = true
		k.o.Tell(format, args...)
	}
}

// ownAddresses are all of the machine's interfaces.
func ownAddresses() []netip.Addr {
	var own []netip.Addr
	found, _ := net.InterfaceAddrs() // none: those of loopback are known
	for _, address := range found {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && !prefix.Addr().IsLoopback() {
			own = append(own, prefix.Addr())
		}
	}
	return own
}
