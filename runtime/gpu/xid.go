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
)

// This file owns what NVIDIA's driver writes into the kernel's log when something goes wrong: an Xid, which is a number
// for what it was. Most tell of a program's own mistake, some that the device is of no use until it is reset; older
// drivers say the latter nowhere else, and newer ones only at the next look.

// xid is one such message.
type xid struct {
	bus    string // the device's place, as busName writes it, but for the function
	number int
	text   string // what the driver adds
}

// unusable maps the Xid errors after which no program can use the device to their meaning.
var unusable = map[int]string{
	48:  "its memory has an error that cannot be corrected",
	62:  "its own processor has halted",
	64:  "a bad page of its memory could not be put out of use",
	79:  "it has fallen off the bus",
	95:  "an error of its memory reached other programs than the one that met it",
	110: "its security check failed",
	119: "its system processor does not answer",
	120: "its system processor has failed",
	140: "its memory has errors that were not recovered from",
	143: "it could not be initialised",
}

// ofPrograms are the common ones that end a program and leave the device in order, so that whoever looks for a job's
// trouble finds it in the agent's log.
var ofPrograms = map[int]string{
	13: "a program's kernel failed",
	31: "a program used memory that is not its own",
	32: "a program's commands are corrupt",
	43: "a program's work was stopped",
	45: "a program's work was removed, mostly because it ended",
	68: "a program's video work failed",
	94: "an error of the memory hit one program alone",
}

// recoveryChanged tells in words what newer drivers want done about the device.
const recoveryChanged = 154

// fatal answers what makes the device unusable, or nothing.
func (x xid) fatal() string {
	why := unusable[x.number]
	if _, to, found := strings.Cut(x.text, " to "); x.number == recoveryChanged && found {
		to = strings.ToLower(to)
		if strings.Contains(to, "reset required") || strings.Contains(to, "reboot required") ||
			strings.Contains(to, "drain and reset") {
			why = "the driver says: " + oneLine(x.text)
		}
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("Xid %d: %s", x.number, why)
}

// words are for the log.
func (x xid) words() string {
	if why := ofPrograms[x.number]; why != "" {
		return fmt.Sprintf("Xid %d (%s): %s", x.number, why, oneLine(x.text))
	}
	return fmt.Sprintf("Xid %d: %s", x.number, oneLine(x.text))
}

// parseXid reads a record of /dev/kmsg: numbers, the first of which has the facility and the level, then a semicolon
// and the text. Only the kernel is believed: programs may write into its log too.
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
	place, _, _ = strings.Cut(strings.TrimPrefix(place, "PCI:"), " ") // a part of it may follow
	bus, _, _ := strings.Cut(busName(place), ".")
	if bus == "" {
		return xid{}, false
	}
	return xid{bus: bus, number: n, text: strings.TrimSpace(said)}, true
}

// at reports whether it is about a device, or about the whole that a part belongs to.
func (x xid) at(d Device) bool {
	bus, _, _ := strings.Cut(d.Gpu.BusId, ".")
	return isNVIDIA(d) && bus == x.bus
}

// maxRecord is more than the kernel makes of one message.
const maxRecord = 16 << 10

// readXids hands on every Xid until the reading fails for good. A log that was written to faster than it was read has
// lost messages and goes on after them.
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

// listen follows the kernel's log until the watch ends.
func (w *Watch) listen(ctx context.Context) {
	log, err := os.Open(w.w.KernelLog)
	if err != nil {
		w.w.Note("the kernel's log cannot be read, and what the driver writes there about GPUs is not seen: %v", err)
		return
	}
	_, _ = log.Seek(0, io.SeekEnd) // what came before was for the agent that was there then
	stop := context.AfterFunc(ctx, func() { log.Close() })
	defer stop()
	if err := readXids(ctx, log, w.xids); err != nil && ctx.Err() == nil {
		w.w.Note("the kernel's log cannot be read any more: %v", err)
		log.Close()
	}
}

// onXid gives the device up if there is reason, and tells the operator. A program in a loop can cause the same one a
// thousand times a second: each is told once between two looks.
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
