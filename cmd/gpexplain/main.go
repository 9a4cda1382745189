// Command gpexplain explains the predictions of a trained network as sums
// over its training examples, with calibrated uncertainty.
//
//	gpexplain explain                             # explain a prediction of the built-in network
//	gpexplain explain --index 24 --html page.html # another one, as a page
//	gpexplain predict --json                      # predict every test row
//	gpexplain train --data digits:2000 --classes 4,9 --epochs 5 --lbfgs 20 --out net.onnx
//	gpexplain fit -o digits.gp --method nystrom  # a posterior of any size, saved
//	gpexplain explain --posterior digits.gp      # answers from it
//	gpexplain explain --model net.onnx --data digits:2000
//
// Run gpexplain help VERB for the flags of a verb. The exit status is 2 for a
// wrong command line and 1 for anything that went wrong while it ran; either
// way there is one line on standard error.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the work in order, a second one the process.
	context.AfterFunc(ctx, stop)
	os.Exit(console.Status(os.Stderr, run(ctx, os.Stdout, os.Stderr, os.Args[1:])))
}

// run executes one command line.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	return runOn(ctx, console.New(args, stdout, stderr))
}

// runOn executes the command line of a console.
func runOn(ctx context.Context, c *console.Console) error {
	root := newRoot(c)
	defer c.Close()
	err := root.ExecuteContext(ctx)
	c.ClearBar()
	if c.Out.Err != nil {
		return c.Out.Err
	}
	if _, ok := errors.AsType[*console.UsageError](err); err == nil || c.Running || ok {
		return err
	}
	// Cobra refuses only wrong command lines before a verb runs.
	return console.Usagef("%v; see gpexplain help", err)
}
