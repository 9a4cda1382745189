package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
)

// Exit statuses other than 0 and 1.
const (
	StatusUsage       = 2   // a wrong command line
	StatusInterrupted = 130 // Ctrl-C, as shells have it: 128 and the number of SIGINT
	StatusTerminated  = 143 // the same of SIGTERM
)

// Status reports err in one line and returns the exit status. A context that was
// cancelled counts as interrupted.
func Status(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	msg, interrupted := err.Error(), errors.Is(err, context.Canceled)
	if download := (*dataset.Error)(nil); interrupted && !errors.As(err, &download) {
		msg = "interrupted"
	}
	// Where standard error cannot be written there is nobody left to tell.
	fmt.Fprintln(stderr, "gpexplain: "+job.Message(msg))
	if _, ok := errors.AsType[*job.UsageError](err); ok {
		return StatusUsage
	}
	if interrupted {
		return StatusInterrupted
	}
	return 1
}
