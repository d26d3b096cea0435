// Package gpu finds the devices of a machine, or takes the operator's word for
// them. A machine without any is no error; a driver that does not answer is one.
package gpu

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// Discover tells which devices there are.
type Discover func(ctx context.Context) ([]*messages.Gpu, error)

// Declared are devices that the operator says are there. They are marked as such
// wherever they are shown, and a task finds them by their numbers.
func Declared(n int, kind string) Discover {
	return func(context.Context) ([]*messages.Gpu, error) {
		if n < 0 || n > messages.MaxMilliGPU/1000 {
			return nil, fmt.Errorf("gpus: %d is no number of devices; give 0 to %d", n, messages.MaxMilliGPU/1000)
		}
		gpus := make([]*messages.Gpu, n)
		for i := range gpus {
			gpus[i] = &messages.Gpu{Id: fmt.Sprintf("declared-%d", i), Type: kind, Minor: int32(i), Declared: true}
		}
		return gpus, nil
	}
}

// columns are what nvidia-smi is asked for, in this order.
const columns = "index,uuid,name,memory.total,pci.bus_id"

// outputPatience is how long after the end of its time a program that hangs in
// the driver may hold its output open.
const outputPatience = time.Second

// Nvidia asks the vendor's program; an empty command means nvidia-smi from PATH.
// Where it is not there, there are no devices.
func Nvidia(command string, timeout time.Duration) Discover {
	if command == "" {
		command = "nvidia-smi"
	}
	return func(ctx context.Context) ([]*messages.Gpu, error) {
		path, err := exec.LookPath(command)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ask := exec.CommandContext(ctx, path, "--query-gpu="+columns, "--format=csv,noheader,nounits")
		ask.WaitDelay = outputPatience
		var out, trouble bytes.Buffer
		ask.Stdout, ask.Stderr = &out, &trouble
		err = ask.Run()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s did not answer within %v; see whether the driver hangs, or declare the devices", command, timeout)
		case err != nil:
			return nil, fmt.Errorf("%s: %w: %s", command, err, oneLine(out.String()+" "+trouble.String()))
		}
		return parse(out.Bytes())
	}
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 512)]
}

// parse reads a line for each device. A field that this driver does not know is
// left out; a line without an identity is refused, because a device that cannot
// be named cannot be given to anyone.
func parse(text []byte) ([]*messages.Gpu, error) {
	rows := csv.NewReader(bytes.NewReader(text))
	rows.TrimLeadingSpace, rows.FieldsPerRecord, rows.LazyQuotes = true, -1, true
	lines, err := rows.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	var gpus []*messages.Gpu
	seen := map[string]bool{}
	for i, line := range lines {
		for len(line) < 5 {
			line = append(line, "")
		}
		for c := range line {
			line[c] = strings.TrimSpace(line[c])
		}
		if len(lines) == 1 && strings.HasPrefix(strings.ToLower(line[0]), "no devices") {
			return nil, nil
		}
		id := line[1]
		if !strings.HasPrefix(id, "GPU-") || len(id) > messages.MaxIDBytes || seen[id] {
			return nil, fmt.Errorf("nvidia-smi: device %d has no identity of its own: %s", i, oneLine(strings.Join(line, ", ")))
		}
		seen[id] = true
		gpus = append(gpus, &messages.Gpu{
			Id: id, Type: kind(line[2]), MemoryBytes: mebibytes(line[3]), BusId: known(line[4]), Minor: minor(line[0], i),
		})
	}
	return gpus, nil
}

// kind makes of a product's name the word by which jobs ask for it, such as
// "h100" of "NVIDIA H100 80GB HBM3". What is not understood is kept in full.
func kind(product string) string {
	words := strings.FieldsFunc(strings.ToLower(product), func(r rune) bool {
		return r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	for _, w := range words {
		if strings.ContainsAny(w, "0123456789") && w[0] >= 'a' && w[0] <= 'z' {
			return w
		}
	}
	name := strings.Join(words, "-")
	return name[:min(len(name), messages.MaxNameBytes)]
}

func known(field string) string {
	if strings.HasPrefix(field, "[") || len(field) > messages.MaxIDBytes { // [N/A], [Not Supported]
		return ""
	}
	return field
}

func mebibytes(field string) int64 {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil || n < 0 || n > messages.MaxMemoryBytes>>20 {
		return 0
	}
	return n << 20
}

func minor(field string, otherwise int) int32 {
	n, err := strconv.ParseInt(field, 10, 32)
	if err != nil || n < 0 {
		return int32(otherwise)
	}
	return int32(n)
}
