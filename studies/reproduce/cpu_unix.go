//go:build unix

package reproduce

import "golang.org/x/sys/unix"

// cpuSeconds returns the time that all threads of the process have computed.
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
