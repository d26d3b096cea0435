//go:build linux

package private

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/egress"
)

// This file owns the packet rules: the agent's table, which matches its interfaces by their name prefix, and the host's
// forwarding. The table is replaced in one transaction of the kernel, so it always exists.

// Refuse makes these places unreachable for tasks, instead of the earlier ones.
func (n *Networks) Refuse(places []egress.Place) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places = places
	all, err := os.ReadDir(n.o.Dir)
	if err != nil || len(all) == 0 {
		return err
	}
	return locked(n.rule)
}

const (
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	// beforeNAT is the priority at which packets still have the destination that the task used.
	beforeNAT = -150
)

// rule enables forwarding on the host, and writes the table.
func (n *Networks) rule() error {
	ours, err := forward()
	if err != nil {
		return err
	}
	if err := n.write(ours); err != nil {
		return fmt.Errorf("write the nftables rules: %w", err)
	}
	return nil
}

// note returns the path of the note that the host did not forward packets before there were networks. There is one note
// per network namespace of an agent. It uses the calling thread's namespace, because the process's first thread may
// have left it.
func note() (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &stat); err != nil {
		return "", err
	}
	return filepath.Join(shared, fmt.Sprintf("forwarding-%d", stat.Ino)), nil
}

// forward enables forwarding on the host, and reports whether it was disabled before.
func forward() (ours bool, err error) {
	noted, err := note()
	if err != nil {
		return false, err
	}
	now, err := os.ReadFile(forwarding)
	if err != nil {
		return false, err
	}
	if strings.TrimSpace(string(now)) == "0" {
		if err := os.WriteFile(noted, nil, 0o600); err != nil {
			return false, err
		}
		if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
			return false, fmt.Errorf("write %s: %w", forwarding, err)
		}
	}
	_, err = os.Lstat(noted)
	return err == nil, nil
}

// tidy removes unneeded settings: the agent's table if it has no networks, and forwarding if the host has none.
func (n *Networks) tidy() error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	own, any := false, false
	for _, link := range links {
		own = own || strings.HasPrefix(link.Attrs().Name, n.prefix)
		any = any || strings.HasPrefix(link.Attrs().Name, family) && link.Type() == "veth"
	}
	if !own {
		if err := n.drop(); err != nil {
			return fmt.Errorf("remove the nftables rules: %w", err)
		}
	}
	noted, err := note()
	if any || err != nil {
		return err
	}
	if _, err := os.Lstat(noted); err != nil {
		return nil
	}
	if err := os.WriteFile(forwarding, []byte("0"), 0); err != nil {
		return err
	}
	return os.Remove(noted)
}

func (n *Networks) table() *nftables.Table {
	return &nftables.Table{Name: "synapse-" + strings.TrimPrefix(n.prefix, family), Family: nftables.TableFamilyINet}
}

// drop removes the table if it exists.
func (n *Networks) drop() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.DelTable(n.table())
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// write replaces the table. ours reports that the host forwards only for networks, so it must not forward for others.
func (n *Networks) write(ours bool) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.AddTable(n.table()) // so that the deletion succeeds
	c.DelTable(n.table())
	w := &writer{c: c, table: c.AddTable(n.table())}
	w.chain("arrives", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, beforeNAT)
	from, to := named(expr.MetaKeyIIFNAME, n.prefix, expr.CmpOpEq), named(expr.MetaKeyOIFNAME, n.prefix, expr.CmpOpEq)
	itself := &expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true}
	back := &expr.Fib{Register: 1, FlagSADDR: true, FlagIIF: true, ResultOIF: true}
	w.rule(drops, from, protocolIs(unix.NFPROTO_IPV6)) // it has no route; this rule prevents any leak
	w.rule(drops, from, fibOf(itself, expr.CmpOpNeq, unix.RTN_UNICAST))
	w.rule(drops, from, fibOf(back, expr.CmpOpEq, 0)) // a sender with a forged address
	for _, place := range n.places {
		if place.Net.Addr().Is4() {
			w.refuse(from, place)
		}
	}
	w.chain("passes", nftables.ChainTypeFilter, nftables.ChainHookForward, 0)
	w.rule(drops, to, stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, false))
	if ours {
		other := [][]expr.Any{named(expr.MetaKeyIIFNAME, family, expr.CmpOpNeq), named(expr.MetaKeyOIFNAME, family,
			expr.CmpOpNeq)}
		w.rule(drops, slices.Concat(other...), stateIs(expr.CtStateBitNEW, true), notRedirected())
	}
	w.chain("enters", nftables.ChainTypeFilter, nftables.ChainHookOutput, 0)
	w.rule(drops, to, stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, false))
	w.chain("leaves", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, int(*nftables.ChainPriorityNATSource))
	// The rule matches the incoming interface and not the address, which the host and other programs may have too.
	// Their connections would break. Packets from the host have no incoming interface.
	away := named(expr.MetaKeyOIFNAME, n.prefix, expr.CmpOpNeq)
	w.rule(&expr.Masq{}, from, away, protocolIs(unix.NFPROTO_IPV4))
	return c.Flush()
}

// writer writes one table.
type writer struct {
	c     *nftables.Conn
	table *nftables.Table
	at    *nftables.Chain
}

var drops = &expr.Verdict{Kind: expr.VerdictDrop}

func (w *writer) chain(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority int) {
	w.at = w.c.AddChain(&nftables.Chain{
		Name: name, Table: w.table, Type: kind, Hooknum: hook,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(priority)),
	})
}

// rule adds a rule for packets that match all conditions.
func (w *writer) rule(does expr.Any, conditions ...[]expr.Any) {
	var all []expr.Any
	for _, c := range conditions {
		all = append(all, c...)
	}
	w.c.AddRule(&nftables.Rule{Table: w.table, Chain: w.at, Exprs: append(all, does)})
}

// refuse drops packets to a place.
func (w *writer) refuse(from []expr.Any, place egress.Place) {
	where := goesTo(place.Net)
	if place.Port == 0 {
		w.rule(drops, from, protocolIs(unix.NFPROTO_IPV4), where)
		return
	}
	for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		w.rule(drops, from, protocolIs(unix.NFPROTO_IPV4), where, carries(protocol), toPort(place.Port))
	}
}

func compare(op expr.CmpOp, data []byte) expr.Any { return &expr.Cmp{Op: op, Register: 1, Data: data} }

// named compares the prefix of an interface's name.
func named(key expr.MetaKey, prefix string, op expr.CmpOp) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, compare(op, []byte(prefix))}
}

func protocolIs(family byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, compare(expr.CmpOpEq, []byte{family})}
}

func carries(protocol byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, compare(expr.CmpOpEq, []byte{protocol})}
}

func toPort(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		compare(expr.CmpOpEq, binary.BigEndian.AppendUint16(nil, port)),
	}
}

func fibOf(fib *expr.Fib, op expr.CmpOp, answer uint32) []expr.Any {
	return []expr.Any{fib, compare(op, binaryutil.NativeEndian.PutUint32(answer))}
}

// destination is the offset of the destination address in an IPv4 header.
const destination = 16

func goesTo(net netip.Prefix) []expr.Any {
	mask := binary.BigEndian.AppendUint32(nil, uint32(uint64(1)<<32-uint64(1)<<(32-net.Bits())))
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destination, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		compare(expr.CmpOpEq, net.Masked().Addr().AsSlice()),
	}
}

// stateIs tests a connection's state: one of these, or none of them.
func stateIs(bits uint32, one bool) []expr.Any {
	op := map[bool]expr.CmpOp{true: expr.CmpOpNeq, false: expr.CmpOpEq}[one]
	return masked(expr.CtKeySTATE, bits, op)
}

// notRedirected excludes connections that the host's administrator has redirected, for example to a published port.
func notRedirected() []expr.Any { return masked(expr.CtKeySTATUS, 1<<5, expr.CmpOpEq) } // IPS_DST_NAT

func masked(key expr.CtKey, bits uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits),
			Xor: make([]byte, 4),
		},
		compare(op, make([]byte, 4)),
	}
}
