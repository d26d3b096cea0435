package messages

import "fmt"

// This file formats amounts of GPU time.

// GPUHours formats milli-GPU-seconds as GPU-hours. It adds one decimal digit to values below 100.
func GPUHours(milliGPUSeconds int64) string {
	tenths := (milliGPUSeconds + 180_000) / 360_000
	if tenths >= 1000 {
		return fmt.Sprint(tenths / 10)
	}
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}
