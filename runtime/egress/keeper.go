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

// This file tracks the blocked destinations of the node. The schedulers' addresses and the node's own addresses may
// change while tasks run. The tasks' filters are updated.

// Options holds the settings of a keeper.
type Options struct {
	Schedulers []string // host:port of each
	// Reachable and Disclosed permit access to the schedulers' ports and to a cloud's metadata service.
	Reachable, Disclosed bool
	// Tell is called once for each failure; nil: never.
	Tell func(format string, args ...any)
	// Resolve returns the addresses of a name. Own returns the node's own addresses. nil: the host is asked.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Own     func() []netip.Addr
}

// The intervals and time limits.
const (
	lookAgain    = 5 * time.Second
	resolveLimit = 3 * time.Second
)

// Keeper knows the currently blocked destinations.
type Keeper struct {
	o Options

	mu     sync.Mutex
	known  map[string][]netip.AddrPort // the latest addresses of each scheduler
	places []Place
	turn   int            // number of changes of places
	held   map[string]int // by group, the turn of the places that it blocks
	said   map[string]bool
	others func([]Place) error // also called for changes
	refuse func(group string, places []Place) error
}

// NewKeeper makes a keeper and determines the current destinations.
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

// Places returns the destinations that are blocked for a task that starts now.
func (k *Keeper) Places() []Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.places)
}

// OnChange sets a function that is called when the blocked destinations change. The caller calls it before Begin.
func (k *Keeper) OnChange(tell func([]Place) error) { k.others = tell }

// Begin tracks changes until end is called. groups returns the cgroups of the running tasks.
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

// look determines the blocked destinations. A name that cannot be resolved now keeps its latest addresses.
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
		k.tellOnce("The ports of the blocked services are blocked at every address: there are %d destinations, but "+
			"a filter can hold only %d", len(places), maxPlaces)
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
			k.tellOnce("The blocked destinations of private networks cannot be updated: %v", err)
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

// Hold updates the filters of the tasks' groups that do not have the current destinations yet.
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
			k.tellOnce("The network filter of a task cannot be updated: %v", err)
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

// ownAddresses returns the addresses of the node's interfaces.
func ownAddresses() []netip.Addr {
	var own []netip.Addr
	found, _ := net.InterfaceAddrs() // without them, loopback is still blocked
	for _, address := range found {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && !prefix.Addr().IsLoopback() {
			own = append(own, prefix.Addr())
		}
	}
	return own
}
