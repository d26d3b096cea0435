package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// This file owns the examination of NVIDIA's devices before they are given work. It is stricter than the watch, which
// ends gangs and so goes by what makes a device unfit; what is found here only keeps the next gang away.

// signs holds the details of a GPU in a document that the watch does not use.
type signs struct {
	uncorrectable string // errors of its memory since the driver was loaded
	pending       string // rows, pages or more are to be replaced at the next reset
	unrepairable  string
	width, widest string // lanes on the bus
	slowed        []string
}

// note takes an element of the document, as it is named there and by earlier drivers.
func (s *signs) note(name, value string) {
	yes := strings.EqualFold(value, "yes")
	of, volatile := strings.CutPrefix(name, "ecc_errors/volatile/")
	reason, throttled := strings.CutPrefix(name, "clocks_event_reasons/clocks_event_reason_")
	if older, was := strings.CutPrefix(name, "clocks_throttle_reasons/clocks_throttle_reason_"); was {
		reason, throttled = older, true
	}
	switch {
	case volatile && (strings.Contains(of, "uncorrectable") || of == "double_bit/total"):
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			s.uncorrectable = fmt.Sprintf("%d %s", n, strings.ReplaceAll(strings.ReplaceAll(of, "_", " "), "/", " "))
		}
	case name == "remapped_rows/remapped_row_pending" && yes:
		s.pending = "a row of its memory is to be replaced, which a reset does"
	case name == "ecc_errors/unrepairable_memory" && yes:
		s.unrepairable = "its memory cannot be repaired"
	case name == "ecc_errors/channel_repair_pending" && yes, name == "ecc_errors/tpc_repair_pending" && yes:
		s.pending = "a part of it is to be repaired, which a reset does"
	case name == "retired_pages/pending_retirement" && yes, name == "retired_pages/pending_blacklist" && yes:
		s.pending = "a page of its memory is to be retired, which a reset does"
	case name == "pci/pci_gpu_link_info/link_widths/current_link_width":
		s.width = value
	case name == "pci/pci_gpu_link_info/link_widths/max_link_width":
		s.widest = value
	case throttled && value == "Active" && strings.HasPrefix(reason, "hw_"):
		s.slowed = append(s.slowed, strings.ReplaceAll(reason, "_", " "))
	}
}

// wrong says all that speaks against a device.
func (g *reported) wrong() (all []string) {
	s := &g.signs
	for _, why := range []string{g.fault(), g.warning(), s.unrepairable, s.pending} {
		if why != "" {
			all = append(all, why)
		}
	}
	if s.uncorrectable != "" {
		all = append(all, "its memory had errors since the driver was loaded: "+s.uncorrectable)
	}
	if now, most := lanes(s.width), lanes(s.widest); now > 0 && now < most {
		all = append(all, fmt.Sprintf("it has %d of %d lanes on the bus", now, most))
	}
	if len(s.slowed) > 0 {
		all = append(all, "its clocks are held down: "+strings.Join(s.slowed, ", "))
	}
	return all
}

func lanes(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "x"))
	if err != nil {
		return 0
	}
	return n
}

// Examine asks the vendor's program for all that speaks against NVIDIA's devices. Expected are the devices that should
// be there, by their identities.
func (f *Finder) Examine(ctx context.Context, expected []string) error {
	doc, err := f.query(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	say := func(id, why string) { wrong = append(wrong, "GPU "+id+": "+why) }
	seen := map[string]bool{}
	for i := range doc.gpus {
		g := &doc.gpus[i]
		seen[g.uuid] = true
		for _, part := range g.parts {
			seen[part.uuid] = true
		}
		for _, why := range g.wrong() {
			say(cmp.Or(g.uuid, g.bus), why)
		}
	}
	for _, bus := range slices.Sorted(maps.Keys(doc.lost)) {
		say(bus, doc.lost[bus])
	}
	for _, id := range expected {
		if !seen[id] && strings.HasPrefix(id, "GPU-") {
			say(id, "it is not there")
		}
	}
	wrong = append(wrong, f.links(ctx)...)
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong[:min(len(wrong), maxWrong)], "; "))
}

// maxWrong bounds what is told at once.
const maxWrong = 8

// links says which devices have lost some of their NVLinks. Machines without any say nothing.
func (f *Finder) links(ctx context.Context) []string {
	said, err := f.smi.ask(ctx, "nvlink", "--status")
	if err != nil || said.code != 0 {
		return nil // an old driver, or none of it
	}
	return lostLinks(string(said.text))
}

// lostLinks reads lines such as
//
//	GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
//	         Link 0: 26.562 GB/s
//	         Link 1: <inactive>
//
// A device of which all links are inactive has none that anybody connected.
func lostLinks(text string) (wrong []string) {
	gpu, up, down := "", 0, []string{}
	done := func() {
		if up > 0 && len(down) > 0 {
			wrong = append(wrong, fmt.Sprintf("GPU %s: NVLink %s is down", gpu, strings.Join(down, ", ")))
		}
		up, down = 0, nil
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) < 2:
		case words[0] == "GPU":
			done()
			_, rest, _ := strings.Cut(line, "(UUID: ")
			gpu, _, _ = strings.Cut(rest, ")")
			gpu = cmp.Or(gpu, strings.TrimSuffix(words[1], ":"))
		case words[0] == "Link" && strings.Contains(line, "inactive"):
			down = append(down, strings.TrimSuffix(words[1], ":"))
		case words[0] == "Link" && strings.Contains(line, "GB/s"):
			up++
		}
	}
	done()
	return wrong
}
