package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// stdoutClosed tells whether the process seems to have been started without a
// standard output. Go's runtime then opens /dev/null in its place for reading
// and writing, where results would vanish. A shell opens /dev/null only for writing. Some programs
// start others with /dev/null opened for reading and writing; if standard error shares it, it was
// inherited.
func stdoutClosed() bool {
	flags, err := unix.FcntlInt(1, unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	out, err := os.Stdout.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(out, null) && !sameOpen(1, 2)
}

// sameOpen tells whether two file descriptors stem from one open.
func sameOpen(a, b int) bool {
	const kcmpFile = 0
	pid := uintptr(os.Getpid())
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, kcmpFile, uintptr(a), uintptr(b), 0)
	return errno == 0 && r == 0
}
