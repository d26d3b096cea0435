package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// in returns a document with one GPU and these elements in it.
func in(elements string) string {
	return `<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log><gpu id="00000000:01:00.0">` +
		elements + `<uuid>GPU-1</uuid><minor_number>0</minor_number></gpu></nvidia_smi_log>`
}

// TestFault checks which conditions make a GPU unfit, in the words of each generation.
func TestFault(t *testing.T) {
	for unfit, documents := range map[bool][]string{
		true: {
			`<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>`,
			`<gpu_recovery_action>Reset</gpu_recovery_action>`,
			`<gpu_recovery_action>GPU Reset</gpu_recovery_action>`,
			`<gpu_recovery_action>Reboot</gpu_recovery_action>`,
			`<performance_state>GPU requires reset</performance_state>`,
			`<fan_speed>ERR!</fan_speed><temperature><gpu_temp>GPU is lost</gpu_temp></temperature>`,
		},
		false: {
			``,
			`<gpu_reset_status><reset_required>No</reset_required><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>`,
			`<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status><gpu_recovery_action>None</gpu_recovery_action>`,
			`<gpu_recovery_action>Drain P2P</gpu_recovery_action>`,
			`<gpu_recovery_action>Drain and Reset</gpu_recovery_action>`,
			`<gpu_recovery_action>N/A</gpu_recovery_action>`,
			`<fan_speed>ERR!</fan_speed><power_readings><power_draw>[Unknown Error]</power_draw></power_readings>`,
			`<processes><process_info><process_name>watch "GPU is lost"</process_name><type>GPU is lost</type></process_info></processes>`,
			`<future><gpu_recovery_action>Reset</gpu_recovery_action><nested><deep>1</deep></nested></future>`,
			`<remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>Yes</remapped_row_failure></remapped_rows><ecc_errors><volatile>7</volatile></ecc_errors>`,
		},
	} {
		for _, elements := range documents {
			doc, err := parseDocument([]byte(in(elements)))
			if err != nil || len(doc.gpus) != 1 || doc.gpus[0].uuid != "GPU-1" {
				t.Fatalf("%s: %+v, %v", elements, doc, err)
			}
			if fault := doc.gpus[0].fault(); (fault != "") != unfit {
				t.Errorf("%s: %q", elements, fault)
			}
		}
	}
}

// TestCutOff checks that a document that is cut at any position is rejected.
func TestCutOff(t *testing.T) {
	text, err := os.ReadFile("testdata/535.xml")
	if err != nil {
		t.Fatal(err)
	}
	whole := len(strings.TrimSpace(string(text)))
	for at := 0; at < whole; at += 37 {
		if doc, err := parseDocument(text[:at]); err == nil {
			t.Fatalf("cut off at %d of %d: %d GPUs", at, whole, len(doc.gpus))
		}
	}
}

// TestStrangeDocuments checks that documents that no driver prints are rejected or read safely.
func TestStrangeDocuments(t *testing.T) {
	for text, gpus := range map[string]int{
		"<nvidia_smi_log></nvidia_smi_log>": 0,
		"noise\n<nvidia_smi_log>\x00\xff<gpu><uuid>GPU-1</uuid></gpu></nvidia_smi_log>\nmore noise":             1,
		"<nvidia_smi_log><gpu><gpu><uuid>GPU-1</uuid></gpu></gpu></nvidia_smi_log>":                             1,
		"<nvidia_smi_log><mig_devices><mig_device><index>0</index></mig_device></mig_devices></nvidia_smi_log>": 0,
		`<?xml version="1.0" encoding="KOI8-R"?><nvidia_smi_log><gpu/></nvidia_smi_log>`:                        1,
		"<nvidia_smi_log>" + strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100) + "</nvidia_smi_log>":     -1,
		"<nvidia_smi_log>" + strings.Repeat("<gpu/>", 2000) + "</nvidia_smi_log>":                               -1,
		"<nvidia_smi_log>&unknown;<gpu/></nvidia_smi_log>":                                                      1,
		"</nvidia_smi_log><nvidia_smi_log>":                                                                     -1,
	} {
		doc, err := parseDocument([]byte(text))
		if (err != nil) != (gpus < 0) || err == nil && len(doc.gpus) != gpus {
			t.Errorf("%.60q: %d GPUs, %v", text, len(doc.gpus), err)
		}
	}
}

// TestComplaints checks which GPU an error of the driver is about.
func TestComplaints(t *testing.T) {
	for line, bus := range map[string]string{
		"Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover " +
			"this GPU": "0000:02:00.0",
		"Unable to determine the device handle for GPU0000:BA:00.0: " +
			"Unknown Error": "0000:ba:00.0",
		"Unable to determine the device handle for GPU3: 00000008:BA:00.0: " +
			"Unknown Error": "0008:ba:00.0",
		"Unable to determine the device handle for gpu: Unknown Error": "",
		"Unable to determine the device handle for ":                   "",
	} {
		doc := &document{lost: map[string]string{}}
		doc.complaints([]byte(line + "\n"))
		if why := doc.lost[bus]; (bus == "") != (len(doc.lost) == 0) || bus != "" && why == "" {
			t.Errorf("%s: %q", line, doc.lost)
		}
	}
}

// TestKind checks the GPU type of each product.
func TestKind(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "h100", "Tesla V100-SXM2-16GB": "v100", "NVIDIA A100-PCIE-40GB": "a100",
		"NVIDIA GH200 480GB":            "gh200",
		"NVIDIA RTX PRO 6000 Blackwell": "nvidia-rtx-pro-6000-blackwell", "AMD Instinct MI300X OAM": "mi300x", "": "",
		strings.Repeat("long ", 30):    strings.Repeat("long-", 13)[:63],
		"x" + strings.Repeat("1", 100): "x" + strings.Repeat("1", 62),
	} {
		if got := kindOf(product); got != want {
			t.Errorf("%q: %q", product, got)
		}
	}
}

// FuzzDocument checks that any output is parsed safely, and that the resulting devices can be announced.
func FuzzDocument(f *testing.F) {
	f.Add("No devices were found")
	f.Add(in(`<mig_mode><current_mig>Enabled</current_mig></mig_mode><mig_devices><mig_device><index>0</index><uuid>MIG-1</uuid></mig_device></mig_devices>`))
	f.Add(in("<product_name>NVIDIA H100</product_name><fb_memory_usage><total>81559 MiB</total></fb_memory_usage>"))
	f.Add("Unable to determine the device handle for GPU0000:43:00.0: x\n<nvidia_smi_log><gpu id=\"")
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:min(len(text), 2000)]))
	}
	finder := New(Options{Root: f.TempDir(), Command: "/no/such/program"})
	f.Fuzz(func(t *testing.T, text string) {
		inventory := newInventory()
		if doc, err := parseDocument([]byte(text)); err == nil {
			finder.take(t.Context(), doc, inventory)
		}
		parseListing(text)
		for i, first := range parseMatrix(text) {
			if first > i || first < -1 {
				t.Errorf("%d is in the island of %d", i, first)
			}
		}
		if gpus := inventory.Gpus(); len(gpus) <= maxDevices {
			if err := announced(gpus); err != nil {
				t.Error(err)
			}
		}
	})
}

// announced returns the reason why a scheduler would refuse a node with these devices.
func announced(gpus []*messages.Gpu) error {
	token, incarnation := &messages.Token{Epoch: 1, Counter: 3}, &messages.Incarnation{BootId: "boot", StartedNs: 1}
	total := &messages.Resources{MilliCpu: 1, MilliGpu: int64(len(gpus)) * 1000}
	hello := &messages.Hello{
		Origin: &messages.Origin{Token: token, Job: "j", Node: "n", MachineId: "m", Incarnation: incarnation}, Epoch: 1,
		Announcement: &messages.Announcement{
			Total: total, Gpus: gpus, Address: "10.0.0.1", PortFirst: 20000, PortLast: 20999,
		},
		Ledger: &messages.LedgerReport{Total: total, Free: &messages.Resources{}},
	}
	return hello.Validate()
}

// TestAnnounced checks that announced can fail, and that the devices of every document in testdata pass it.
func TestAnnounced(t *testing.T) {
	if announced([]*messages.Gpu{{Id: "GPU-1"}}) != nil ||
		announced([]*messages.Gpu{{Id: "GPU-1"}, {Id: "GPU-1"}}) == nil || announced([]*messages.Gpu{{Id: "a/b"}}) == nil {
		t.Error("announced tells nothing")
	}
	names, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if err := announced(migRig(t).says("query", filepath.Base(name)).mustFind().Gpus()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
