// Command gpexplain explains the predictions of a trained network as sums
// over its training examples, with calibrated uncertainty.
//
//	gpexplain explain                       explain a prediction of the built-in network
//	gpexplain explain --index 3 --html a.html
//	gpexplain predict --json                predict every test row
//	gpexplain train --arch thesis-cnn --data digits --classes 4,9 --out net.onnx
//	gpexplain validate                      weight space against function space
//
// Run gpexplain help VERB for the flags of a verb. The exit status is 2 for a
// wrong command line and 1 for anything that went wrong while it ran; either
// way there is one line on standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// started is as near to the start of the process as Go code can be.
var started = time.Now()

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(status(os.Stderr, run(ctx, os.Stdout, os.Stderr, os.Args[1:])))
}

// usageError is a command line that is wrong without looking at any file.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// status reports err in one line and returns the exit status.
func status(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	msg := err.Error()
	if errors.Is(err, context.Canceled) {
		msg = "interrupted; nothing was written"
	}
	fmt.Fprintln(stderr, "gpexplain: "+strings.Join(strings.Fields(strings.ReplaceAll(msg, "\n", " ")), " "))
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	return 1
}
