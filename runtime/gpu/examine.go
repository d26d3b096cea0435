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

// This file examines NVIDIA's devices before they get work. It is stricter than the watch. The watch ends gangs, so it
// reports only unfit devices. This examination only keeps the next gang away.

// signs holds the details of a GPU in a document that the watch does not use.
type signs struct {
	uncorrectable string // memory errors after the driver was loaded
	pending       string // memory that will be repaired at the next reset
	unrepairable  string
	width, widest string // bus lanes in use and supported
	slowed        []string
}

// note stores an element of the document, by its current and earlier names.
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
		s.pending = "a memory row must be replaced; reset the GPU"
	case name == "ecc_errors/unrepairable_memory" && yes:
		s.unrepairable = "the memory cannot be repaired"
	case name == "ecc_errors/channel_repair_pending" && yes, name == "ecc_errors/tpc_repair_pending" && yes:
		s.pending = "a part must be repaired; reset the GPU"
	case name == "retired_pages/pending_retirement" && yes, name == "retired_pages/pending_blacklist" && yes:
		s.pending = "a memory page must be retired; reset the GPU"
	case name == "pci/pci_gpu_link_info/link_widths/current_link_width":
		s.width = value
	case name == "pci/pci_gpu_link_info/link_widths/max_link_width":
		s.widest = value
	case throttled && value == "Active" && strings.HasPrefix(reason, "hw_"):
		s.slowed = append(s.slowed, strings.ReplaceAll(reason, "_", " "))
	}
}

// wrong returns all problems of a device.
func (g *reported) wrong() (all []string) {
	s := &g.signs
	for _, why := range []string{g.fault(), g.warning(), s.unrepairable, s.pending} {
		if why != "" {
			all = append(all, why)
		}
	}
	if s.uncorrectable != "" {
		all = append(all, "the memory had errors after the driver was loaded: "+s.uncorrectable)
	}
	if now, most := lanes(s.width), lanes(s.widest); now > 0 && now < most {
		all = append(all, fmt.Sprintf("%d of %d bus lanes work", now, most))
	}
	if len(s.slowed) > 0 {
		all = append(all, "the clocks are slowed down: "+strings.Join(s.slowed, ", "))
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

// Examine asks nvidia-smi for all problems of NVIDIA's devices. expected lists the identities of the devices that must
// exist.
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
			say(id, "the GPU is missing")
		}
	}
	wrong = append(wrong, f.links(ctx)...)
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong[:min(len(wrong), maxWrong)], "; "))
}

// maxWrong bounds the number of reported problems.
const maxWrong = 8

// links returns the devices that have lost some of their NVLinks.
func (f *Finder) links(ctx context.Context) []string {
	said, err := f.smi.ask(ctx, "nvlink", "--status")
	if err != nil || said.code != 0 {
		return nil // an old driver, or no driver
	}
	return lostLinks(string(said.text))
}

// lostLinks parses lines such as
//
//	GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
//	         Link 0: 26.562 GB/s
//	         Link 1: <inactive>
//
// A device with only inactive links has no connected NVLink.
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
