package gpu

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// This file parses the output of `nvidia-smi -q -x`. Each generation of the driver adds elements and renames some. The
// parser therefore reads only the needed elements, assumes nothing about missing ones, and skips all others. It rejects
// an incomplete document, because the missing devices are unknown.

// document holds the driver's description of its GPUs.
type document struct {
	driver   string
	attached string
	gpus     []reported
	// lost maps the bus addresses of GPUs that the driver no longer reaches to the driver's text.
	lost map[string]string
}

// reported is one GPU of a document, with the driver's texts.
type reported struct {
	bus, name, uuid, minor, memory, mig string
	busy, used                          string
	recovery, reset, drain, remap       string
	cluster, clique                     string
	trouble                             string // the text of a field that reports a lost GPU or a required reset
	parts                               []reportedPart
	signs                               signs
}

// reportedPart is one part of a divided GPU (MIG).
type reportedPart struct{ index, instance, compute, memory, uuid string }

const (
	maxDepth    = 64
	maxReported = 1024
	maxField    = 4096
)

var (
	errNoDocument = errors.New("the output has no document")
	errCutOff     = errors.New("the document is truncated")
)

// parseDocument parses the document and the driver's errors before and after it.
func parseDocument(text []byte) (*document, error) {
	doc := &document{lost: map[string]string{}}
	begin := bytes.Index(text, []byte("<nvidia_smi_log"))
	if begin < 0 {
		doc.complaints(text)
		return doc, errNoDocument
	}
	doc.complaints(text[:begin])
	const last = "</nvidia_smi_log>"
	end := bytes.LastIndex(text, []byte(last))
	if end < begin {
		return doc, errCutOff
	}
	end += len(last)
	doc.complaints(text[end:])
	if err := doc.walk(text[begin:end]); err != nil {
		return doc, err
	}
	return doc, nil
}

// walk reads the elements one by one. It first removes the names of processes, which the processes chose themselves. It
// also replaces characters that XML forbids.
func (doc *document) walk(text []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(legible(withoutNames(text))))
	decoder.Strict = false
	decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	var path []string
	var field strings.Builder
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("the document cannot be parsed: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			field.Reset()
			if len(path) > maxDepth || len(doc.gpus) > maxReported {
				return errors.New("the document is deeper or longer than any known format")
			}
			doc.open(path, t)
		case xml.EndElement:
			doc.field(path, strings.TrimSpace(field.String()))
			field.Reset()
			path = path[:max(len(path)-1, 0)]
		case xml.CharData:
			if field.Len()+len(t) <= maxField {
				field.Write(t)
			}
		}
	}
	if len(path) > 0 {
		return errCutOff
	}
	return nil
}

// withoutNames removes the names of processes.
func withoutNames(text []byte) []byte {
	begin, end := []byte("<process_name>"), []byte("</process_name>")
	var kept []byte
	for {
		before, rest, found := bytes.Cut(text, begin)
		kept = append(kept, before...)
		if !found {
			return kept
		}
		if _, text, found = bytes.Cut(rest, end); !found {
			return append(kept, rest...)
		}
	}
}

// legible replaces characters that XML forbids.
func legible(text []byte) []byte {
	text = bytes.ToValidUTF8(text, []byte("?"))
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, text)
}

func (doc *document) open(path []string, t xml.StartElement) {
	switch strings.Join(path[1:], "/") {
	case "gpu":
		gpu := reported{}
		for _, a := range t.Attr {
			if a.Name.Local == "id" {
				gpu.bus = busName(a.Value)
			}
		}
		doc.gpus = append(doc.gpus, gpu)
	case "gpu/mig_devices/mig_device":
		if gpu := doc.last(); gpu != nil && len(gpu.parts) < maxReported {
			gpu.parts = append(gpu.parts, reportedPart{})
		}
	}
}

func (doc *document) last() *reported {
	if len(doc.gpus) == 0 {
		return nil
	}
	return &doc.gpus[len(doc.gpus)-1]
}

// field stores an element's text if the element is needed.
func (doc *document) field(path []string, value string) {
	if len(path) < 2 || value == "" {
		return
	}
	gpu := doc.last()
	switch name := strings.Join(path[1:], "/"); {
	case name == "driver_version":
		doc.driver = value
	case name == "attached_gpus":
		doc.attached = value
	case path[1] != "gpu" || gpu == nil:
	case strings.HasPrefix(name, "gpu/mig_devices/mig_device/"):
		if n := len(gpu.parts); n > 0 {
			gpu.parts[n-1].field(strings.TrimPrefix(name, "gpu/mig_devices/mig_device/"), value)
		}
	default:
		gpu.field(strings.TrimPrefix(name, "gpu/"), value)
	}
}

func (g *reported) field(name, value string) {
	if fatal(value) && g.trouble == "" && !strings.HasPrefix(name, "processes/") {
		g.trouble = name + ": " + value
	}
	g.signs.note(name, value)
	switch name {
	case "product_name":
		g.name = value
	case "uuid":
		g.uuid = value
	case "minor_number":
		g.minor = value
	case "pci/pci_bus_id":
		if bus := busName(value); bus != "" {
			g.bus = bus
		}
	case "fb_memory_usage/total", "memory_usage/total": // the second name is from drivers before 340
		g.memory = value
	case "fb_memory_usage/used", "memory_usage/used":
		g.used = value
	case "utilization/gpu_util":
		g.busy = value
	case "mig_mode/current_mig":
		g.mig = value
	case "gpu_recovery_action":
		g.recovery = value
	case "gpu_reset_status/reset_required":
		g.reset = value
	case "gpu_reset_status/drain_and_reset_recommended":
		g.drain = value
	case "remapped_rows/remapped_row_failure":
		g.remap = value
	case "fabric/clusterUuid", "fabric/cluster_uuid", "fabric/clusterUUID":
		g.cluster = value
	case "fabric/cliqueId", "fabric/clique_id":
		g.clique = value
	}
}

func (p *reportedPart) field(name, value string) {
	switch name {
	case "index":
		p.index = value
	case "gpu_instance_id":
		p.instance = value
	case "compute_instance_id":
		p.compute = value
	case "fb_memory_usage/total":
		p.memory = value
	case "uuid":
		p.uuid = value
	}
}

// fatal reports whether a text in place of a value means that the GPU is gone.
func fatal(value string) bool {
	value = strings.ToLower(value)
	return len(value) < 200 && (strings.Contains(value, "gpu is lost") || strings.Contains(value, "gpu requires reset"))
}

// fault returns the reason why the GPU is unfit for work. A problem that can wait until the tasks have ended is no
// fault, because a fault stops a gang.
func (g *reported) fault() string {
	switch {
	case g.trouble != "":
		return "the driver reports " + oneLine(g.trouble)
	case strings.EqualFold(g.reset, "yes"):
		return "the driver reports that the GPU requires a reset"
	case g.mustRecover():
		return "the driver reports that the GPU must recover: " + oneLine(g.recovery)
	}
	return ""
}

// mustRecover reads the recovery action of newer drivers, which replaces the older Xid errors. A drain can wait.
func (g *reported) mustRecover() bool {
	action := strings.ToLower(g.recovery)
	return (strings.Contains(action, "reset") || strings.Contains(action, "reboot")) && !strings.Contains(action, "drain")
}

// warning returns a problem that an operator should check, but that stops no gang.
func (g *reported) warning() string {
	switch {
	case strings.EqualFold(g.drain, "yes"), strings.Contains(strings.ToLower(g.recovery), "drain"):
		return "the driver recommends to drain and reset the GPU"
	case strings.EqualFold(g.remap, "yes"):
		return "a bad memory row could not be replaced"
	}
	return ""
}

// complaints parses lines outside of the document, such as "Unable to determine the device handle for GPU0000:3B:00.0:
// GPU is lost. …".
func (doc *document) complaints(text []byte) {
	if len(text) > 1<<16 {
		text = text[:1<<16]
	}
	for line := range strings.Lines(string(text)) {
		_, about, found := strings.Cut(line, "Unable to determine the device handle for ")
		if !found || len(doc.lost) >= maxReported {
			continue
		}
		for at := range len(about) {
			if bus, rest := placeIn(about[at:]); bus != "" {
				doc.lost[bus] = "the driver reports: " + oneLine(strings.Trim(rest, " :\n"))
				break
			}
		}
	}
}

// placeIn reads a bus address at the beginning of a text such as "00000000:3B:00.0: GPU is lost". It returns the rest
// of the text too.
func placeIn(text string) (bus, rest string) {
	for _, domain := range []int{8, 4} {
		n := domain + len(":00:00.0")
		if len(text) >= n && text[domain] == ':' && text[domain+3] == ':' && text[domain+6] == '.' {
			if bus := busName(text[:n]); bus != "" {
				return bus, text[n:]
			}
		}
	}
	return "", ""
}
