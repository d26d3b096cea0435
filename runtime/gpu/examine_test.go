package gpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamine checks that each fault in the output of nvidia-smi is reported with its device, and that a healthy node
// of any driver generation has none.
func TestExamine(t *testing.T) {
	document := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const second, links = "GPU-00000535-0001-4a00-8000-abcdef000001", "535-nvlink.txt"
	well := document("535.xml")
	at := strings.Index(well, second)
	// plant changes the first unchanged field of the second device.
	plant := func(was, is string) string {
		if !strings.Contains(well[at:], was) {
			t.Fatalf("the document has no %s", was)
		}
		return well[:at] + strings.Replace(well[at:], was, is, 1)
	}
	for name, c := range map[string]struct{ document, links, want string }{
		"well":             {well, document(links), ""},
		"well, no NVLink":  {well, "", ""},
		"well, driver 390": {document("390.xml"), "", ""},
		"well, driver 418": {document("418.xml"), "", ""},
		"ECC": {plant("<dram_uncorrectable>0<", "<dram_uncorrectable>2<"), "",
			second + ": the memory had errors after the driver was loaded: 2 dram uncorrectable"},
		"ECC in SRAM": {plant("<sram_uncorrectable>0<", "<sram_uncorrectable>1<"), "", "1 sram uncorrectable"},
		"row failed": {plant("<remapped_row_failure>No<", "<remapped_row_failure>Yes<"), "",
			second + ": a bad memory row could not be replaced"},
		"row pending": {plant("<remapped_row_pending>No<", "<remapped_row_pending>Yes<"), "",
			second + ": a memory row must be replaced"},
		"page pending": {plant("<pending_retirement>N/A<", "<pending_retirement>Yes<"), "",
			second + ": a memory page must be retired"},
		"PCIe": {plant("<current_link_width>16x<", "<current_link_width>4x<"), "",
			second + ": 4 of 16 bus lanes work"},
		"clocks": {plant("hw_thermal_slowdown>Not Active<", "hw_thermal_slowdown>Active<"), "",
			second + ": the clocks are slowed down: hw thermal slowdown"},
		"well, driver 580": {document("580.xml"), "", ""},
		"memory": {strings.Replace(document("580.xml"), "<unrepairable_memory>No<", "<unrepairable_memory>Yes<", 1), "",
			"the memory cannot be repaired"},
		"repair": {strings.Replace(document("580.xml"), "<channel_repair_pending>No<", "<channel_repair_pending>Yes<", 1), "",
			"a part must be repaired; reset the GPU"},
		"SRAM, driver 580": {strings.Replace(document("580.xml"), "_parity>0<", "_parity>3<", 1), "",
			"3 sram uncorrectable parity"},
		"reset": {document("550-reset.xml"), "", "requires a reset"},
		"NVLink": {well, strings.Replace(document(links), "Link 2: 26.562 GB/s", "Link 2: <inactive>", 1),
			"NVLink 2 is down"},
		"lost": {document("535-lost.txt"), "", "GPU 0000:43:00.0: the driver reports: Unknown Error"},
	} {
		r := newRig(t)
		r.program(`case "$*" in
"-q -x") cat "$SAID/query" ;;
"nvlink --status") cat "$SAID/links" ;;
*) exit 2 ;;
esac`)
		r.says("query", c.document).says("links", c.links)
		err := r.finder().Examine(context.Background(), nil)
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r := newRig(t).says("query", "535.xml")
	if err := r.finder().Examine(context.Background(), []string{second, "GPU-gone"}); err == nil ||
		err.Error() != "GPU GPU-gone: the GPU is missing" {
		t.Errorf("a device that is missing: %v", err)
	}
}
