package messages

import "fmt"

// This file owns how work is written for people.

// GPUHours writes milli-GPU-seconds as GPU-hours, with one digit behind the point where there are few.
func GPUHours(milliGPUSeconds int64) string {
	tenths := (milliGPUSeconds + 180_000) / 360_000
	if tenths >= 1000 {
		return fmt.Sprint(tenths / 10)
	}
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}
