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

// Exit statuses other than 0 and 1. After 1 or 2 the same command line fails again; after the others it may
// succeed.
const (
	StatusUsage       = 2   // a wrong command line
	StatusAgain       = 75  // a failure of the machine: EX_TEMPFAIL of sysexits.h
	StatusHungUp      = 129 // the terminal was closed: 128 and the number of SIGHUP
	StatusInterrupted = 130 // Ctrl-C: 128 and the number of SIGINT, as in shells
	StatusTerminated  = 143 // 128 and the number of SIGTERM
)

// failures are errors of the machine, independent of the command line: a full disk, failed input or output, too
// little memory.
var failures = []error{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT,
	syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE,
}

// Status reports err in one line that begins with the name of the program, and returns the exit status. For Python
// the line is a JSON object with the message and the first argument that the message names. A cancelled context
// counts as interrupted.
func Status(stderr io.Writer, program string, words option.Words, err error) int {
	if err == nil {
		return 0
	}
	msg, interrupted := option.Word(err, words), errors.Is(err, context.Canceled)
	if download := (*dataset.Error)(nil); interrupted && !errors.As(err, &download) {
		msg = "interrupted"
	}
	// Errors of writing to standard error are ignored, since they cannot be reported anywhere.
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
