package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A decisionLog is the file of --decisions. Another can take its place while it is written.
type decisionLog struct {
	path string

	mutex sync.Mutex
	file  *os.File
}

var _ io.WriteCloser = (*decisionLog)(nil)

// openDecisions opens the file to append to it.
func openDecisions(path string) (*decisionLog, error) {
	l := &decisionLog{path: path}
	return l, l.reopen()
}

// Write implements io.Writer.
func (l *decisionLog) Write(b []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.file.Write(b)
}

// Close implements io.Closer.
func (l *decisionLog) Close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.file.Close()
}

// reopen opens the file of the same name again, which is a new file if the old one was renamed. After an error
// the log keeps writing to the old file.
func (l *decisionLog) reopen() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return option.Errorf("{decisions=%s}: %w; give another file", l.path, job.CauseOf(err))
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	old := l.file
	l.file = f
	if old != nil {
		return old.Close()
	}
	return nil
}

// reopenOnHangup reopens the file at each SIGHUP, as programs that rotate logs expect of a server without a
// terminal. For a server with a terminal, SIGHUP means that the terminal is gone, and ends the server.
func (l *decisionLog) reopenOnHangup(failed io.Writer) {
	if tty, err := os.Open("/dev/tty"); err == nil {
		_ = tty.Close() // nothing was written
		return
	}
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGHUP) // takes it from who listens so far
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if err := l.reopen(); err != nil {
				fmt.Fprintln(failed, "gpexplain: the old file is still written:", err)
			}
		}
	}()
}
