package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/yi-json/synapse/messages"
)

// This file reads the errors of NVIDIA's driver in the kernel log. Each error is an Xid, a number for its kind. Most
// are caused by programs. Some mean that the device is unusable until a reset. Older drivers report these only in the
// log, and newer drivers report them elsewhere only at the next check.

// xid is one such message.
type xid struct {
	bus    string // the device's address in the form of busName, without the function
	number int
	text   string // the driver's further text
}

// unusable maps the Xid errors after which no program can use the device to their meaning.
var unusable = map[int]string{
	48:  "the memory has an error that cannot be corrected",
	62:  "the GPU's own processor has halted",
	64:  "a bad memory page could not be retired",
	79:  "the GPU has fallen off the bus",
	95:  "a memory error affected several programs",
	110: "the GPU's security check failed",
	119: "the GPU's system processor does not answer",
	120: "the GPU's system processor has failed",
	140: "the memory has errors that could not be recovered",
	143: "the GPU could not be initialized",
}

// ofPrograms maps common Xid errors that end only a program to their meaning, so that users can find the cause in the
// agent's log.
var ofPrograms = map[int]string{
	13: "a program's kernel failed",
	31: "a program accessed memory that it does not own",
	32: "a program's commands are corrupt",
	43: "a program's work was stopped",
	45: "a program's work was removed, usually because the program ended",
	68: "a program's video work failed",
	94: "a memory error affected one program",
}

// recoveryChanged is the Xid with which newer drivers report the recommended action.
const recoveryChanged = 154

// fatal returns the reason why the device is unusable; empty: it is usable.
func (x xid) fatal() string {
	why := unusable[x.number]
	if _, to, found := strings.Cut(x.text, " to "); x.number == recoveryChanged && found {
		to = strings.ToLower(to)
		if strings.Contains(to, "reset required") || strings.Contains(to, "reboot required") ||
			strings.Contains(to, "drain and reset") {
			why = "the driver reports: " + oneLine(x.text)
		}
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("Xid %d: %s", x.number, why)
}

// words returns the text for the log.
func (x xid) words() string {
	if why := ofPrograms[x.number]; why != "" {
		return fmt.Sprintf("Xid %d (%s): %s", x.number, why, oneLine(x.text))
	}
	return fmt.Sprintf("Xid %d: %s", x.number, oneLine(x.text))
}

// parseXid parses a record of /dev/kmsg. A record has numbers, a semicolon and a text. The first number contains the
// facility and the level. Only records of the kernel are accepted, because programs can write to the log too.
func parseXid(record string) (xid, bool) {
	head, text, found := strings.Cut(record, ";")
	priority, _, _ := strings.Cut(head, ",")
	level, err := strconv.Atoi(priority)
	if !found || err != nil || level>>3 != 0 {
		return xid{}, false
	}
	text, _, _ = strings.Cut(text, "\n")
	rest, found := strings.CutPrefix(text, "NVRM: Xid (")
	place, rest, closed := strings.Cut(rest, "): ")
	number, said, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if !found || !closed || err != nil || n < 0 {
		return xid{}, false
	}
	place, _, _ = strings.Cut(strings.TrimPrefix(place, "PCI:"), " ") // the number of a part may follow
	bus, _, _ := strings.Cut(busName(place), ".")
	if bus == "" {
		return xid{}, false
	}
	return xid{bus: bus, number: n, text: strings.TrimSpace(said)}, true
}

// at reports whether the Xid is about a device, or about the GPU of which the device is a part.
func (x xid) at(d Device) bool {
	bus, _, _ := strings.Cut(d.Gpu.BusId, ".")
	return isNVIDIA(d) && bus == x.bus
}

// XidOf parses a record of the kernel log that reports a driver error of a GPU. It returns the address of the GPU as
// BusOf does. A change of the recommended recovery counts only if the GPU is unusable.
func XidOf(record string) (bus string, number int, ok bool) {
	x, ok := parseXid(record)
	if !ok || x.number == recoveryChanged && x.fatal() == "" {
		return "", 0, false
	}
	return x.bus, x.number, true
}

// BusOf returns the address of a GPU in the form of XidOf.
func BusOf(g *messages.Gpu) string {
	bus, _, _ := strings.Cut(busName(g.GetBusId()), ".")
	return bus
}

// maxRecord exceeds the size of any record of the kernel.
const maxRecord = 16 << 10

// readXids sends every Xid to the channel until reading fails permanently. If the log is written faster than it is
// read, some messages are lost, and reading continues.
func readXids(ctx context.Context, log io.Reader, to chan<- xid) error {
	record := make([]byte, maxRecord)
	for {
		n, err := log.Read(record)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if x, ok := parseXid(string(record[:n])); ok {
			select {
			case to <- x:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// listen reads the kernel log until the watch ends.
func (w *Watch) listen(ctx context.Context) {
	log, err := os.Open(w.w.KernelLog)
	if err != nil {
		w.w.Note("the kernel log cannot be read, so GPU errors in it are not detected: %v", err)
		return
	}
	_, _ = log.Seek(0, io.SeekEnd) // earlier messages were for an earlier agent
	stop := context.AfterFunc(ctx, func() { log.Close() })
	defer stop()
	if err := readXids(ctx, log, w.xids); err != nil && ctx.Err() == nil {
		w.w.Note("the kernel log can no longer be read: %v", err)
		log.Close()
	}
}

// onXid withdraws the device if needed, and notifies the operator. A program in a loop can cause the same Xid a
// thousand times per second, so each Xid is noted once between two checks.
func (w *Watch) onXid(x xid) {
	for _, d := range w.w.Devices {
		if w.state[d.Gpu.Id] == nil || !x.at(d) {
			continue
		}
		if why := x.fatal(); why != "" {
			w.giveUp(d, why)
		}
		if said := fmt.Sprint(d.Gpu.Id, x.number); !w.said[said] {
			w.said[said] = true
			w.w.Note("GPU %s: %s", d.Gpu.Id, x.words())
		}
	}
}
