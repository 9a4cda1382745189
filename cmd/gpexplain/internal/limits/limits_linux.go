// Package limits ends a program in one line where limits of the process are so low that the Go runtime would end it later with
// a dump of its goroutines. A program imports it for that alone. It depends on package syscall only, so that it comes before
// packages that open files as they are initialized.
package limits

import "syscall"

const (
	// leastSpace is the address space that the runtime, its threads and a small answer take, in bytes. With less than a third
	// of it the runtime itself does not start.
	leastSpace = 2 << 30
	// leastFiles is how many files more the runtime opens to wait for events, with one that it reads.
	leastFiles = 4
	status     = 75 // EX_TEMPFAIL of sysexits.h, as for other failures of the machine
)

func init() {
	var space syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &space) == nil && space.Cur < leastSpace {
		end("the address space is limited (ulimit -v), and 2 GiB of it are needed; raise the limit, or limit data (ulimit -d) instead")
	}
	var open []int
	for range leastFiles {
		f, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE {
			end("too few files may be open (ulimit -n); raise the limit")
		}
		if err == nil {
			open = append(open, f)
		}
	}
	for _, f := range open {
		_ = syscall.Close(f) // nothing was written
	}
}

// end says why on standard error.
func end(why string) {
	_, _ = syscall.Write(2, []byte("gpexplain: "+why+"\n")) // there is nobody else to tell
	syscall.Exit(status)
}
