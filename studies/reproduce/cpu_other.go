//go:build !unix

package reproduce

import "math"

// cpuSeconds returns the time that all threads of the process have computed, which is
// not known here.
func cpuSeconds() float64 { return math.NaN() }
