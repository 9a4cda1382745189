package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/option"
)

// Exit statuses other than 0 and 1. The same command line ends with 1 or 2 again; with any other it may succeed.
const (
	StatusUsage       = 2   // a wrong command line
	StatusAgain       = 75  // the machine failed: EX_TEMPFAIL of sysexits.h
	StatusHungUp      = 129 // the terminal is gone: the same as below of SIGHUP
	StatusInterrupted = 130 // Ctrl-C, as shells have it: 128 and the number of SIGINT
	StatusTerminated  = 143 // the same of SIGTERM
)

// failures are errors of a machine, whatever it was asked: no room on a disk, input and output, no memory.
var failures = []error{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT,
	syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE,
}

// Status reports err in one line that begins with the name of the program, and returns the exit status. For Python the
// line is a JSON object of the message, and of the argument that it names first. A context that was cancelled counts as
// interrupted.
func Status(stderr io.Writer, program string, words option.Words, err error) int {
	if err == nil {
		return 0
	}
	msg, interrupted := option.Word(err, words), errors.Is(err, context.Canceled)
	if download := (*dataset.Error)(nil); interrupted && !errors.As(err, &download) {
		msg = "interrupted"
	}
	// Where standard error cannot be written there is nobody left to tell.
	if words == option.Python {
		e := json.NewEncoder(stderr)
		e.SetEscapeHTML(false)
		_ = e.Encode(struct {
			Message  string `json:"message"`
			Argument string `json:"argument,omitempty"`
		}{Message(msg), option.First(err, words)})
	} else {
		fmt.Fprintln(stderr, program+": "+Message(msg))
	}
	_, usage := errors.AsType[*UsageError](err)
	switch {
	case usage:
		return StatusUsage
	case interrupted:
		return StatusInterrupted
	case slices.ContainsFunc(failures, func(e error) bool { return errors.Is(err, e) }):
		return StatusAgain
	}
	return 1
}
